// SPDX-License-Identifier: GPL-3.0-or-later
// Blocking client of the broker over its unix socket. Every call has a deadline. One thread at a time.
#pragma once

#include "wire/messages.h"

namespace spider::wire {

// The broker's socket: `given`, else $SPIDERFLOW_SOCKET, else the one of the build.
std::string socket_path(const std::string &given);

class Client {
  public:
    explicit Client(std::string socket) : socket_(std::move(socket)) {}

    // Errors are one line: what the broker said, or "broker: ..." when it could not be asked.
    Result<PlanReply> plan(const PlanRequest &request, Seconds deadline = 10);
    Result<PlaceReply> place(const std::string &job, const PlaceRequest &request, Seconds deadline = 45);
    Result<void> drop(const std::string &job, Seconds deadline = 4);
    Result<JobList> jobs(bool all, Seconds deadline = 10);
    Result<JobView> job(const std::string &job, Seconds deadline = 10);
    Result<JobView> cancel(const std::string &job, Seconds deadline = 10);
    Result<SitesView> sites(Seconds deadline = 10);
    Result<LinksView> links(Seconds deadline = 10);
    // Both directions between two sites, once they are measured.
    Result<LinksView> measure(const MeasureRequest &request, Seconds deadline = 180);
    Result<ImportReply> import_links(const ImportRequest &request, Seconds deadline = 30);
    Result<std::string> version(Seconds deadline = 4);

  private:
    std::string socket_;

    Result<std::string> call(const char *method, const std::string &path, const std::string &body,
                             Seconds deadline);
};

} // namespace spider::wire
