// SPDX-License-Identifier: GPL-3.0-or-later
// The broker: holds the federated jobs, asks coalloc what comes next and does it. Everything here runs in one
// thread; nothing here blocks. broker.cc: life cycle; planning.cc: plan and place; parts.cc: what is done at
// the sites; views.cc.
#pragma once

#include "broker/journal.h"
#include "broker/settings.h"
#include "broker/sites.h"
#include "coalloc/job.h"
#include "wire/messages.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spider::broker {

struct Caller {
    std::uint32_t uid = 0;
    std::string name;
    bool is_operator = false;
};

using Respond = std::function<void(Result<Json>)>; // called exactly once, in the broker's thread

class Broker {
  public:
    Broker(Config config, Journal journal, slurm::Http &http, const util::Clock &clock);

    Result<void> resume(); // takes up what the journal holds
    void reconfigure(Config config);
    void tick(); // what is due now
    [[nodiscard]] std::string status_line() const;
    [[nodiscard]] const Config &config() const { return config_; }

    void plan(const Caller &caller, const wire::PlanRequest &request, Respond respond);
    void place(const Caller &caller, const std::string &id, wire::PlaceRequest request, Respond respond);
    [[nodiscard]] Result<Json> drop(const Caller &caller, const std::string &id);
    [[nodiscard]] Result<Json> cancel(const Caller &caller, const std::string &id);
    [[nodiscard]] Result<Json> show(const Caller &caller, const std::string &id) const;
    [[nodiscard]] Result<Json> list(const Caller &caller, bool all) const;
    [[nodiscard]] Result<Json> sites() const;

  private:
    using Job = coalloc::Job;
    struct Placement { // of a job that is being placed; never written anywhere
        wire::PlaceRequest request;
        Respond respond;
        std::size_t open = 0; // submissions without an answer
        std::string trouble;  // of the first site that refused
        Seconds until = 0;    // monotonic; then the answer goes out whatever the state
    };

    // broker.cc
    Job *find(const std::string &id);
    Result<Job *> own(const Caller &caller, const std::string &id);
    bool step(Job &job, coalloc::Event event, const std::string &why);
    void act(Job &job, coalloc::Action action);
    void advance(Job &job);
    Result<void> save(const Job &job);
    void forget_old();
    // planning.cc
    Result<void> may_submit(const Caller &caller) const;
    Result<Json> make_plan(const Caller &caller, const wire::PlanRequest &request);
    [[nodiscard]] Result<void> one_gpu_per_task(const wire::PlanRequest &request) const;
    Result<Plan> search(JobSpec spec, const std::string &partition);
    void check_home(const std::string &id, Result<slurm::Reply> reply);
    Result<std::vector<slurm::Call>> calls_for(Job &job, const wire::PlaceRequest &request);
    void submit_parts(Job &job);
    void take_submitted(const std::string &id, std::size_t index, Result<slurm::Reply> reply);
    void part_refused(const std::string &id, std::size_t index, const std::string &why);
    void part_settled(const std::string &id);
    void answer_placements();
    // parts.cc
    void follow(Job &job);
    void take_view(const std::string &id, std::size_t index, Result<slurm::Reply> reply);
    void release(Job &job);
    void give_word(Job &job);
    Result<std::string> word_for(const Job &job);
    void cancel_parts(Job &job);
    void sweep();
    void sweep_site(const std::string &site, const std::vector<slurm::JobView> &jobs);
    void ask_part(const Job &job, std::size_t index, const std::string &verb, const slurm::Call &call,
                  std::function<void(Result<slurm::Reply>)> done);

    Config config_;
    Journal journal_;
    const util::Clock &clock_;
    Sites sites_;
    coalloc::Policy policy_;
    std::map<std::string, Job> jobs_;
    std::map<std::string, Placement> placements_;
    std::set<std::string> asked_;  // requests under way: "id/site/verb"
    std::set<std::string> warned_; // unknown marks seen at sites, said once
    Seconds follow_due_ = 0, push_due_ = 0, sweep_due_ = 0;
    Seconds busy_until_ = 0; // sweeps are frequent until then
};

} // namespace spider::broker
