// `shardwise jobs` as users run it: results, resuming, sharing a folder, and everything that a batch may get
// wrong.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class JobsProgram : public ProgramTest {
 protected:
  std::string batch(const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write("batch.jsonl", text);
    return path("batch.jsonl");
  }
  /// A job that notes that it ran, and sleeps.
  std::string noting(const std::string& id, const std::string& seconds, const std::string& more = "") const {
    return R"({"id": ")" + id + R"(", "command": ["sh", "-c", "sleep )" + seconds + " && echo " + id +
           " >> " + path("ran") + R"("])" + more + "}";
  }
  std::vector<std::string> command(const std::string& batch_path,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"jobs", batch_path, "-o", path("out"), "--devices", "host:3x1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json report_of(const Outcome& outcome, int code = 0) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }
  /// By the table: how many jobs each "HOST,PID" ran.
  std::map<std::string, int> jobs_by_process() const {
    std::istringstream lines(read("out/results.csv"));
    std::map<std::string, int> result;
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      const auto pid = line.rfind(','), host = line.rfind(',', pid - 1);
      ++result[line.substr(host + 1)];
    }
    return result;
  }
  std::multiset<std::string> ran() const {
    std::istringstream lines(read("ran"));
    std::multiset<std::string> result;
    for (std::string line; std::getline(lines, line);) result.insert(line);
    return result;
  }
};

TEST_F(JobsProgram, RunsCommandsAndKeepsWhatTheySay) {
  const std::string file =
      batch({R"({"id": "a", "command": ["sh", "-c", "echo out; echo err >&2; echo $SHARDWISE_DEVICE"]})",
             R"({"key": "b", "cost": 5, "bytes": "1Ki", "timeout_s": 20, "retries": 2, "command": ["true"]})",
             "", R"({"id": 3, "command": ["pwd"]})"});
  const Json report = report_of(run(command(file, {"--json", "-"})));
  EXPECT_EQ(report["jobs"], 3);
  EXPECT_EQ(report["done"], 3);
  EXPECT_EQ(report["failed"], 0);
  EXPECT_EQ(report["devices"].size(), 3u);
  EXPECT_GT(report["makespan_s"], 0);
  EXPECT_GT(report["lower_bound_s"], 0);
  EXPECT_TRUE(read("out/a/stdout").starts_with("out\nhost:")) << read("out/a/stdout");
  EXPECT_EQ(read("out/a/stderr"), "err\n");
  const Json result = Json::parse(read("out/a/result.json"));
  EXPECT_EQ(result["exit_code"], 0);
  EXPECT_EQ(result["attempts"], 1);
  EXPECT_TRUE(std::string(result["device"]).starts_with("host:"));
  EXPECT_TRUE(read("out/results.csv")
                  .starts_with("id,device,status,exit_code,attempts,queued_s,run_s,error,host,pid\na,host:"));
  EXPECT_TRUE(leftovers().empty());
  EXPECT_FALSE(exists("out/.shardwise/lock"));
}

TEST_F(JobsProgram, AFailureLeavesTheRestRunningAndARerunDoesOnlyIt) {
  const std::string file = batch({noting("a", "0"),
                                  R"({"id": "bad", "command": ["sh", "-c", "echo why >&2; test -e )" +
                                      path("mended") + R"( || exit 7"]})",
                                  noting("b", "0"), R"({"id": "none", "command": ["/no/such/program"]})"});
  const Outcome first = run(command(file));
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.err.find("2 of 4 jobs failed"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("job 'bad' on host:"), std::string::npos);
  EXPECT_NE(first.err.find("exit code 7; see '"), std::string::npos);
  EXPECT_NE(first.err.find("the command '/no/such/program' did not start (start it: No such file"),
            std::string::npos)
      << first.err;
  EXPECT_EQ(ran(), (std::multiset<std::string>{"a", "b"}));
  EXPECT_EQ(Json::parse(read("out/bad/result.json"))["exit_code"], 7);
  write("mended", "");
  const Json second = report_of(run(command(file, {"--json", "-"})), 1);
  EXPECT_EQ(second["kept"], 2);
  EXPECT_EQ(second["done"], 3);
  EXPECT_EQ(ran(), (std::multiset<std::string>{"a", "b"}));
  // A job whose line says something else is another job; a damaged record is none.
  batch({noting("a", "0.0"), noting("b", "0")});
  write("out/b/result.json", "{");
  const Json third = report_of(run(command(file, {"--json", "-"})));
  EXPECT_EQ(third["kept"], 0);
  EXPECT_EQ(ran(), (std::multiset<std::string>{"a", "a", "b", "b"}));
}

TEST_F(JobsProgram, FailFastTimeoutAndRetries) {
  std::vector<std::string> lines{R"({"id": "bad", "cost": 1000, "command": ["false"]})"};
  for (int i = 0; i < 40; ++i) lines.push_back(noting("job" + std::to_string(i), "0.2"));
  const Outcome fast = run(command(batch(lines), {"--fail-fast"}));
  EXPECT_EQ(fast.code, 1);
  EXPECT_LT(ran().size(), 30u);
  fs::remove_all(path("out"));
  const std::string file =
      batch({R"({"id": "slow", "timeout_s": 0.2, "command": ["sh", "-c", "sleep 30 & wait"]})",
             R"({"id": "third", "retries": 3, "command": ["sh", "-c", "echo x >> )" + path("tries") +
                 R"(; test $(wc -l < )" + path("tries") + R"() -ge 3"]})"});
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run(command(file));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_NE(outcome.err.find("stopped after its timeout"), std::string::npos) << outcome.err;
  EXPECT_EQ(Json::parse(read("out/third/result.json"))["attempts"], 3);
  EXPECT_EQ(Json::parse(read("out/third/result.json"))["status"], "done");
}

// A device is busy with what fails, too.
TEST_F(JobsProgram, FailedJobsCountAsTimeOfTheirDevices) {
  const std::string file =
      batch({R"({"id": "slow", "timeout_s": 0.5, "command": ["sleep", "30"]})",
             R"({"id": "bad", "retries": 1, "command": ["sh", "-c", "sleep 0.2; exit 1"]})"});
  const std::vector<std::string> words{"jobs", file, "-o", path("out"), "--devices", "host:1x1"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Json report = report_of(run(with({"--json", "-"})), 1);
  const Json& device = report["devices"][0];
  EXPECT_EQ(device["jobs"], 0);
  EXPECT_EQ(device["failed"], 3) << "attempts";
  EXPECT_GE(device["busy_s"].get<double>(), 0.9);
  EXPECT_LE(device["busy_share"].get<double>(), 1.001);
  EXPECT_GE(report["lower_bound_s"].get<double>(), 0.9);
  EXPECT_LE(report["lower_bound_s"].get<double>(), report["makespan_s"].get<double>() * 1.001);
  EXPECT_NE(run(with({})).out.find("failed"), std::string::npos);
  // Nothing ran, and there is nothing to compare with.
  fs::remove_all(path("out"));
  batch({R"({"id": "large", "bytes": "2Ki", "command": ["true"]})"});
  const Outcome none = run(with({"--memory", "1Ki"}));
  EXPECT_NE(none.out.find(" in all\n"), std::string::npos) << none.out;
  EXPECT_EQ(none.out.find("at least"), std::string::npos) << none.out;
}

// Killed half-way, without a chance to clean up: the rerun does only the rest.
TEST_F(JobsProgram, AKilledRunIsTakenUp) {
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i) lines.push_back(noting("job" + std::to_string(i), "0.05"));
  const std::string file = batch(lines);
  std::set<std::string> finished;
  {
    RunningProgram first(folder_, command(file));
    for (int i = 0; i < 1000 && finished.size() < 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (int j = 0; j < 40; ++j)
        if (exists("out/job" + std::to_string(j) + "/result.json"))
          finished.insert("job" + std::to_string(j));
    }
    first.send(SIGKILL);
    EXPECT_EQ(first.wait().signal, SIGKILL);
  }
  ASSERT_GE(finished.size(), 8u);
  ASSERT_LT(finished.size(), 40u);
  EXPECT_TRUE(exists("out/.shardwise/lock")) << "left behind";
  const Outcome second = run(command(file, {"--json", "-"}));
  const Json report = report_of(second);
  EXPECT_GE(report["kept"].get<int>(), static_cast<int>(finished.size()));
  EXPECT_EQ(report["done"], 40);
  EXPECT_NE(second.err.find("was left behind by process"), std::string::npos) << second.err;
  const auto all = ran();
  for (const std::string& id : finished) EXPECT_EQ(all.count(id), 1u) << id;
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 40u);
}

TEST_F(JobsProgram, ASignalKeepsWhatIsDone) {
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) lines.push_back(noting("job" + std::to_string(i), "0.1"));
  const std::string file = batch(lines);
  RunningProgram first(folder_, command(file));
  for (int i = 0; i < 500 && ran().size() < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  first.send(SIGINT);
  const Outcome outcome = first.wait();
  EXPECT_EQ(outcome.code, 130);
  EXPECT_NE(outcome.err.find("of 60 jobs are done and kept in"), std::string::npos) << outcome.err;
  EXPECT_FALSE(exists("out/.shardwise/lock"));
  EXPECT_TRUE(fs::is_empty(path("out/.shardwise/claims")));
  EXPECT_EQ(report_of(run(command(file, {"--json", "-"})))["done"], 60);
  EXPECT_LE(ran().size(), 63u) << "at most what was running is done again";
}

TEST_F(JobsProgram, TwoProcessesShareAFolder) {
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) lines.push_back(noting("job" + std::to_string(i), "0.05"));
  const std::string file = batch(lines);
  fs::create_directories(path("one"));
  fs::create_directories(path("two"));
  RunningProgram owner(path("one"), command(file, {"--json", "-"}));
  for (int i = 0; i < 500 && !exists("out/.shardwise/lock"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // Without --join it is refused, by the owner's name.
  const Outcome refused = run(command(file));
  expect_one_line_error(refused, 2, "is owned by process ");
  EXPECT_NE(refused.err.find("add --join"), std::string::npos) << refused.err;
  RunningProgram other(path("two"), command(file, {"--json", "-", "--join"}));
  const Json first = report_of(owner.wait()), second = report_of(other.wait());
  EXPECT_EQ(first["done"], 60);
  EXPECT_EQ(second["done"], 60);
  EXPECT_EQ(first["ran_here"].get<int>() + second["ran_here"].get<int>(), 60);
  EXPECT_GT(second["ran_here"].get<int>(), 0);
  const auto all = ran();
  EXPECT_EQ(all.size(), 60u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 60u) << "nothing twice";
  // The table says who ran what, as many of each as the two say of themselves.
  const std::map<std::string, int> here = jobs_by_process();
  std::multiset<int> counts, expected{first["ran_here"], second["ran_here"]};
  for (const auto& [process, count] : here) counts.insert(count);
  EXPECT_EQ(counts, expected) << read("out/results.csv");
}

// A folder that an earlier version began has records without a process: they are taken as they are.
TEST_F(JobsProgram, RecordsThatDoNotSayWhoRanAJobStayGood) {
  const std::string file = batch({noting("a", "0"), noting("b", "0")});
  EXPECT_EQ(report_of(run(command(file, {"--json", "-"})))["done"], 2);
  Json record = Json::parse(read("out/a/result.json"));
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(record["host"], host);
  EXPECT_GT(record["pid"].get<long>(), 0);
  record.erase("host");
  record.erase("pid");
  write("out/a/result.json", record.dump());
  EXPECT_EQ(report_of(run(command(file, {"--json", "-"})))["kept"], 2);
  EXPECT_EQ(ran().size(), 2u);
  const auto here = jobs_by_process();
  EXPECT_EQ(here.size(), 2u) << read("out/results.csv");
  EXPECT_EQ(here.count(","), 1u) << "of job a nobody knows";
}

// Its clock was ahead, or ours was set back.
TEST_F(JobsProgram, AFailureOfTheFutureIsTriedAgain) {
  const std::string file = batch({R"({"id": "a", "command": ["sh", "-c", "echo >> )" + path("ran") +
                                  R"(; test -e )" + path("luck") + R"("]})"});
  EXPECT_EQ(report_of(run(command(file, {"--json", "-"})), 1)["failed"], 1);
  Json record = Json::parse(read("out/a/result.json"));
  record["ended"] = record["ended"].get<double>() + 1e6;
  write("out/a/result.json", record.dump());
  const Json again = report_of(run(command(file, {"--json", "-"})), 1);
  EXPECT_EQ(again["ran_here"], 1);
  EXPECT_EQ(again["elsewhere"], 0);
  write("luck", "");
  EXPECT_EQ(report_of(run(command(file, {"--json", "-"})))["done"], 1);
}

// A claim that cannot be written is no fault of its job.
TEST_F(JobsProgram, AFolderThatVanishesEndsTheRunAndNoJobFails) {
  const std::string file =
      batch({R"({"id": "a", "cost": 9, "command": ["rm", "-r", ")" + path("out/.shardwise") + R"("]})",
             R"({"id": "b", "command": ["true"]})"});
  const Outcome outcome = run({"jobs", file, "-o", path("out"), "--devices", "host:1x1"});
  expect_one_line_error(outcome, 1, "cannot write '" + path("out/.shardwise/claims/b") + "'");
  EXPECT_EQ(Json::parse(read("out/a/result.json"))["status"], "done");
  EXPECT_FALSE(exists("out/b/result.json"));
}

// As under a quota: by a signal, which would end us without a word.
TEST_F(JobsProgram, AFileBeyondALimitIsAnError) {
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i)
    lines.push_back(R"({"id": ")" + std::string(30, 'x') + std::to_string(i) + R"(", "command": ["true"]})");
  const std::string file = batch(lines);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {4096, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  RunningProgram limited(folder_, command(file, {"--quiet"}));
  setrlimit(RLIMIT_FSIZE, &limit);
  expect_one_line_error(limited.wait(), 1, "cannot write '" + path("out/results.csv") + "' (File too large)");
  EXPECT_TRUE(leftovers().empty());
}

// Neither is it gone, nor do we wait in silence.
TEST_F(JobsProgram, AnOwnerThatIsStoppedIsNamed) {
  const std::string file = batch({noting("a", "0.5")});
  fs::create_directories(path("one"));
  RunningProgram owner(path("one"), command(file));
  for (int i = 0; i < 500 && !exists("out/.shardwise/claims/a"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  owner.send(SIGSTOP);
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const timespec old[2] = {{now.tv_sec - 120, 0}, {now.tv_sec - 120, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path("out/.shardwise/lock").c_str(), old, 0), 0);
  const Outcome refused = run(command(file));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("is stopped and has 'lock'; let it go on ('kill -CONT " +
                             std::to_string(owner.id()) + "') or end it"),
            std::string::npos)
      << refused.err;
  owner.send(SIGCONT);
  EXPECT_EQ(owner.wait().code, 0);
  EXPECT_EQ(ran().size(), 1u);
}

// Asked for a sign of life, which it gives, but after the job has ended.
TEST_F(JobsProgram, ADeviceIsWellAfterAJobThatFailed) {
  const std::string file = batch({R"({"id": "a", "command": ["false"]})"});
  for (int i = 0; i < 5; ++i) {
    const Json report =
        report_of(run({"jobs", file, "-o", path("out"), "--devices", "host:1x1", "--json", "-"}), 1);
    EXPECT_EQ(report["devices"][0]["state"], "ok");
  }
}

// A job that was never tried did not fail: the next run does it, whatever became of this one's devices.
TEST_F(JobsProgram, JobsOfLostDevicesAreLeftToTheNextRun) {
  std::vector<std::string> lines{R"({"id": "bad", "cost": 1000, "command": ["test", "-e", ")" +
                                 path("mended") + R"("]})"};
  for (int i = 0; i < 20; ++i) lines.push_back(noting("job" + std::to_string(i), "0"));
  const std::string file = batch(lines);
  // The first job fails, and the device does not answer when it is asked for a sign of life.
  const auto begin = std::chrono::steady_clock::now();
  const Outcome first = run({"jobs", file, "-o", path("out"), "--devices", "sim:1", "--sim-faults",
                             "device 0 operation 1 lost", "--json", "-"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  const Json report = report_of(first, 1);
  EXPECT_EQ(report["undone"], 20);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_EQ(report["devices"][0]["state"], "lost");
  EXPECT_NE(
      first.err.find("20 of 21 jobs were not begun, because their devices are lost, and nobody else is at "
                     "work (job 'job"),
      std::string::npos)
      << first.err;
  EXPECT_NE(first.err.find("no device is left"), std::string::npos);
  EXPECT_FALSE(exists("out/job0")) << "it has no failure on record";
  EXPECT_NE(read("out/results.csv").find("\njob0,,undone,,0,,,,,\n"), std::string::npos);
  write("mended", "");
  const Json second = report_of(run(command(file, {"--json", "-"})));
  EXPECT_EQ(second["done"], 21);
  EXPECT_EQ(second["undone"], 0);
  EXPECT_EQ(ran().size(), 20u);
}

// A misspelt command says nothing about the device: it is not asked, and what it would have answered is left
// to who asks next.
TEST_F(JobsProgram, ACommandThatDoesNotStartIsNotTheDevicesFault) {
  write("plain", "no program");
  const std::string file = batch({R"({"id": "misspelt", "cost": 3, "command": ["no-such-program-anywhere"]})",
                                  R"({"id": "plain", "cost": 2, "command": [")" + path("plain") + R"("]})",
                                  R"({"id": "good", "command": ["true"]})"});
  const Outcome outcome = run({"jobs", file, "-o", path("out"), "--devices", "sim:1", "--sim-faults",
                               "device 0 operation 1 lost", "--json", "-"});
  const Json report = report_of(outcome, 1);
  EXPECT_EQ(report["done"], 1);
  EXPECT_EQ(report["failed"], 2);
  EXPECT_EQ(report["undone"], 0);
  EXPECT_EQ(report["devices"][0]["state"], "ok");
  EXPECT_NE(outcome.err.find("job 'misspelt' on sim:0: the command 'no-such-program-anywhere' did not start "
                             "(start it: No such file or directory); check its name and the path"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("did not start (start it: Permission denied)"), std::string::npos)
      << outcome.err;
}

// What an earlier command of that name said is not this one's.
TEST_F(JobsProgram, ACommandThatDoesNotStartSaysNothing) {
  EXPECT_EQ(run(command(batch({R"({"id": "a", "command": ["echo", "earlier"]})"}))).code, 0);
  EXPECT_EQ(read("out/a/stdout"), "earlier\n");
  EXPECT_EQ(run(command(batch({R"({"id": "a", "command": ["/no/such/program"]})"}))).code, 1);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(path("out/a"))) files.insert(entry.path().filename());
  EXPECT_EQ(files, std::set<std::string>{"result.json"});
}

TEST_F(JobsProgram, JobsOfLostDevicesAreDoneByWhoSharesTheFolder) {
  std::vector<std::string> lines{
      R"({"id": "bad", "cost": 1000, "command": ["sh", "-c", "sleep 1; test $SHARDWISE_DEVICE != sim:0"]})"};
  for (int i = 0; i < 40; ++i) lines.push_back(noting("job" + std::to_string(i), "0.1"));
  const std::string file = batch(lines);
  fs::create_directories(path("one"));
  fs::create_directories(path("two"));
  RunningProgram loser(path("one"), {"jobs", file, "-o", path("out"), "--devices", "sim:1", "--sim-faults",
                                     "device 0 operation 1 lost", "--json", "-"});
  for (int i = 0; i < 500 && !exists("out/.shardwise/claims/bad"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RunningProgram other(path("two"),
                       {"jobs", file, "-o", path("out"), "--devices", "host:1x1", "--join", "--json", "-"});
  const Json first = report_of(loser.wait(), 1), second = report_of(other.wait(), 1);
  for (const Json& report : {first, second}) {
    EXPECT_EQ(report["done"], 40);
    EXPECT_EQ(report["failed"], 1) << "the one that was tried";
    EXPECT_EQ(report["undone"], 0);
  }
  EXPECT_EQ(first["elsewhere"], 40);
  EXPECT_EQ(second["ran_here"], 40);
  EXPECT_EQ(ran().size(), 40u) << "nothing twice";
}

// The program as a worker process: by hand it says what it is; `bench jobs` measures what it costs.
TEST_F(JobsProgram, WorkerProcesses) {
  expect_one_line_error(run({"job-worker"}), 2, "a job worker is started by an executor");
  const Json report = report_of(run({"bench", "jobs", "--devices", "host:1x1", "--quick", "--repeat", "3",
                                     "--only", "isolated-job", "isolated-job-4mib", "--json", "-"}));
  ASSERT_EQ(report["rows"].size(), 2u);
  for (const Json& row : report["rows"]) {
    // A copy of 4 MiB costs about the same either way, and a busy machine decides.
    if (row["name"] == "isolated-job") {
      EXPECT_GT(row["all_s"]["min"].get<double>(), row["one_s"]["min"].get<double>()) << row;
    }
    EXPECT_NE(row["work"].get<std::string>().find("without a worker process"), std::string::npos) << row;
  }
  // Commands are processes of their own.
  const std::string file = batch({noting("a", "0"), noting("b", "0")});
  EXPECT_EQ(report_of(run(command(file, {"--isolate", "--json", "-"})))["done"], 2);
}

TEST_F(JobsProgram, FoldersOfOthersAreLeftAlone) {
  const std::string file = batch({R"({"id": "a", "command": ["true"]})"});
  fs::create_directories(path("out"));
  write("out/precious", "data");
  expect_one_line_error(run(command(file)), 2, "has something in it that 'shardwise jobs' did not make");
  EXPECT_EQ(read("out/precious"), "data");
  fs::remove_all(path("out"));
  write("out", "a file");
  expect_one_line_error(run(command(file)), 2, "is no folder");
  fs::remove(path("out"));
  fs::create_directories(path("out/.shardwise"));
  write("out/.shardwise/folder.json", R"({"schema": 1, "command": "sweep"})");
  expect_one_line_error(run(command(file)), 2, "holds the results of 'shardwise sweep'");
}

TEST_F(JobsProgram, BatchErrorsNameLineAndKey) {
  const auto refuse = [&](const std::vector<std::string>& lines, const std::string& part, int code = 3) {
    expect_one_line_error(run(command(batch(lines))), code, part);
    EXPECT_FALSE(exists("out")) << "refused before anything is made";
  };
  const std::string good = R"({"id": "a", "command": ["true"]})";
  refuse({good, R"({"id": "b", "comand": ["true"]})"},
         "batch.jsonl:2: unknown key 'comand'; did you mean 'command'?");
  refuse({good, "{nonsense"}, "batch.jsonl:2: no JSON, at character 3");
  refuse({R"({"id": "a", "id": "b", "command": ["true"]})"}, "batch.jsonl:1: the key \"id\" comes twice");
  refuse({R"({"id": "a", "command": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}"},
         "is nested more than 16 deep");
  refuse({R"({"id": "results.csv", "command": ["true"]})"}, "that the folder of results has for itself");
  refuse({"[1]"}, "batch.jsonl:1: is no JSON object");
  refuse({good, "", good}, "batch.jsonl:3: the id 'a' is that of line 1, too");
  refuse({R"({"command": ["true"]})"}, "batch.jsonl:1: has neither 'id' nor 'key'");
  refuse({R"({"id": "a"})"}, "batch.jsonl:1: job 'a' has neither 'command' nor 'cuda'");
  refuse({R"({"id": "a/b", "command": ["true"]})"}, "batch.jsonl:1: the id 'a/b' has a '/'");
  refuse({R"({"id": "a", "command": []})"}, "batch.jsonl:1: command: is empty");
  refuse({R"({"id": "a", "command": "true"})"}, "batch.jsonl:1: command: is \"true\"; give a list of texts");
  refuse({R"({"id": "a", "command": ["true"], "cost": 0})"},
         "batch.jsonl:1: cost: is 0; give a whole number from 1");
  refuse({good, R"({"id": "b", "command": ["true"], "cost": 1e999})"},
         "batch.jsonl:2: a number is too large for any key: '1e999'; give a smaller one");
  refuse({R"({"id": "a", "command": ["true"], "cost": 18446744073709551615})", "",
          R"({"id": "b", "command": ["true"], "cost": 2})"},
         "batch.jsonl:3: with cost 2 the costs add up to over 64 bits; give all in a larger unit");
  for (const char* bytes : {R"("-1")", R"("1Xi")", "-1", "0.5"})
    refuse({good, std::string(R"({"id": "b", "command": ["true"], "bytes": )") + bytes + "}"},
           "batch.jsonl:2: bytes: ");
  refuse({R"({"id": "a", "command": ["true"], "timeout_s": -1})"}, "batch.jsonl:1: timeout_s: is -1");
  refuse({R"({"id": "a", "cuda": {"file": "x.cu", "kernel": "k", "gridd": 4}})"},
         "batch.jsonl:1: cuda: unknown key 'gridd'; did you mean 'grid'?");
  refuse({R"({"id": "a", "cuda": {"file": "x.cu"}})"}, "batch.jsonl:1: cuda: has no 'kernel'");
  refuse({R"({"id": "a", "cuda": {"file": "x.cu", "kernel": "k"}})"},
         "none of the devices 'host:3x1' is a GPU", 2);
  refuse({}, "has no jobs");
  expect_one_line_error(run(command(path("nowhere.jsonl"))), 3, "nowhere.jsonl");
  expect_one_line_error(run({"jobs", batch({good})}), 2, "give -o DIR");
  expect_one_line_error(run({"jobs"}), 2, "jobs needs a batch file");
  expect_one_line_error(run(command(batch({good}), {"--speeds", "1,2"})), 2, "--speeds has 2 numbers");
}

TEST_F(JobsProgram, ALargeJobFailsWithTheNumbers) {
  const std::string file = batch({R"({"id": "large", "bytes": "2Ki", "command": ["true"]})"});
  const Outcome outcome = run(command(file, {"--memory", "1Ki"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("job 'large': it needs 2.00 KiB (2048 bytes), more than every device"),
            std::string::npos)
      << outcome.err;
}

// It fails before anything runs; what it cancels has not begun, wherever it stands.
TEST_F(JobsProgram, FailFastBeginsNothingWhereAJobFitsNoDevice) {
  const std::string file =
      batch({noting("before", "0"), R"({"id": "large", "bytes": "2Ki", "command": ["true"]})",
             noting("behind", "0")});
  const Json report = report_of(run(command(file, {"--memory", "1Ki", "--fail-fast", "--json", "-"})), 1);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_EQ(report["cancelled"], 2);
  EXPECT_TRUE(ran().empty());
}

TEST_F(JobsProgram, APlanCertifiesItself) {
  std::vector<std::string> lines;
  for (int i = 0; i < 30; ++i)
    lines.push_back(R"({"id": "j)" + std::to_string(i) + R"(", "command": ["false"], "cost": )" +
                    std::to_string(i + 1) + "}");
  const Json plan = report_of(run(command(batch(lines), {"--dry-run", "--json", "-"})));
  EXPECT_EQ(plan["lower_bound"], 155);
  EXPECT_EQ(plan["makespan"], 155);
  EXPECT_EQ(plan["kept"], 0);
  EXPECT_FALSE(exists("out"));
}

TEST_F(JobsProgram, APlanHasWhatIsLeftToDo) {
  const std::string good = R"({"id": "good", "cost": 5, "command": ["true"]})";
  const std::string file = batch({good, R"({"id": "bad", "cost": 3, "command": ["false"]})"});
  EXPECT_EQ(run(command(file)).code, 1);
  const Outcome text = run(command(file, {"--dry-run"}));
  EXPECT_TRUE(text.out.starts_with("plan of 1 job (1 of 2 are done already), nothing was run\n")) << text.out;
  EXPECT_NE(text.out.find("\nTo run it, leave out --dry-run.\n"), std::string::npos) << text.out;
  const Json plan = report_of(run(command(file, {"--dry-run", "--json", "-"})));
  EXPECT_EQ(plan["jobs"], 2);
  EXPECT_EQ(plan["kept"], 1);
  EXPECT_EQ(plan["makespan"], 3);
  const Outcome none = run(command(batch({good}), {"--dry-run"}));
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_TRUE(none.out.starts_with("plan of 0 jobs (1 of 1 are done already)")) << none.out;
}

}  // namespace
}  // namespace shardwise::test
