// shardwise scene: what is in a scene file, one-file scenes, generated cities.
