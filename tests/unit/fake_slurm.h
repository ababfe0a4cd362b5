// SPDX-License-Identifier: GPL-3.0-or-later
// A folder with fakes of Slurm's commands, first on PATH. Each call is noted with its arguments.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace spider::test {

class FakeSlurm {
  public:
    std::filesystem::path folder = testing::TempDir() + "slurm" + std::to_string(::getpid());
    std::string socket = (folder / "s").string(); // for a fake broker

    FakeSlurm() {
        std::filesystem::create_directories(folder);
        ::setenv("PATH", (folder.string() + ":" + path_).c_str(), 1);
    }
    ~FakeSlurm() {
        ::setenv("PATH", path_.c_str(), 1);
        std::filesystem::remove_all(folder);
    }
    FakeSlurm(const FakeSlurm &) = delete;
    FakeSlurm &operator=(const FakeSlurm &) = delete;

    // A shell script; in it $here is the folder.
    void tool(const std::string &name, const std::string &body) const {
        const auto path = folder / name;
        std::ofstream(path) << "#!/bin/sh\nhere='" << folder.string() << "'\n"
                            << "echo \"" << name << " $*\" >>\"$here/calls\"\n"
                            << body << "\n";
        ::chmod(path.c_str(), 0700);
    }
    std::string file(const std::string &name, const std::string &text) const {
        std::ofstream(folder / name) << text;
        return (folder / name).string();
    }
    [[nodiscard]] std::vector<std::string> calls(const std::string &beginning) const {
        std::ifstream log(folder / "calls");
        std::vector<std::string> found;
        for (std::string row; std::getline(log, row);)
            if (row.starts_with(beginning)) found.push_back(row);
        return found;
    }

  private:
    std::string path_ = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "/usr/bin:/bin";
};

} // namespace spider::test
