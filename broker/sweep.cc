// SPDX-License-Identifier: GPL-3.0-or-later
// Broker: looks at every site for marked jobs. Nobody may want them any more: the home part of an sbatch that
// was killed, a part of an attempt that is over. Or they are what a submission without an answer has left.
#include "broker/broker.h"

#include "util/comment.h"
#include "util/log.h"

#include <algorithm>

namespace spider::broker {

using coalloc::PartState;
using coalloc::State;

namespace {

constexpr Seconds sweep_timeout = 10;
constexpr Seconds cancel_timeout = 6;
// A request whose answer was lost may still be on its way through slurmrestd: longer than its own deadline.
constexpr Seconds submit_settles = 20;

struct Found {
    std::size_t part = 0;
    bool known = false;  // it is what the record says
    bool adopts = false; // it is what a submission without an answer has left
};

Found find_part(const coalloc::Job &job, const std::string &site, const util::Comment &mark,
                const slurm::JobView &view) {
    for (std::size_t i = 0; i < job.parts.size(); ++i) {
        const auto &part = job.parts[i];
        if (part.site != site || mark.attempt != job.attempt) continue;
        if (part.job == view.id) return {i, true, false};
        if (part.job == 0 && part.state == PartState::submitting && part.user == view.user)
            return {i, false, true};
    }
    return {};
}

} // namespace

void Broker::sweep() {
    if (jobs_.empty() || clock_.elapsed() > busy_until_) return;
    for (const auto &[name, line] : sites_.lines()) {
        if (!asked_.insert("sweep/" + name).second) continue;
        sites_.call(name, line.config.token_user, line.api->jobs(), sweep_timeout,
                    [this, name = name, began = clock_.now()](Result<slurm::Reply> reply) {
                        asked_.erase("sweep/" + name);
                        const auto *where = sites_.line(name);
                        if (!reply || where == nullptr) return;
                        auto jobs = where->api->read_jobs(*reply);
                        if (jobs && *jobs) sweep_site(name, began, **jobs);
                    });
    }
}

void Broker::sweep_site(const std::string &site, Seconds began, const std::vector<slurm::JobView> &jobs) {
    for (const auto &view : jobs) {
        const auto mark = util::parse_comment(view.comment);
        if (!mark || slurm::is_over(view.state) || mark->job.rfind(config_.home + "-", 0) != 0) continue;
        auto *job = find(mark->job);
        const auto there = "site " + site + ": job " + std::to_string(view.id);
        if (job == nullptr) { // not ours to judge: another broker's, or older than our journal
            if (warned_.insert(site + "/" + std::to_string(view.id)).second)
                util::log_warning(there + " is marked " + mark->job +
                                  ", which this broker does not know; left alone");
            continue;
        }
        const auto found = find_part(*job, site, *mark, view);
        const bool home_comes = mark->attempt == 1 && site == config_.home &&
                                (job->state == State::planned || job->state == State::placing);
        if (found.adopts) {
            job->parts[found.part].job = view.id;
            job->parts[found.part].state = PartState::pending;
            util::log_info("job " + job->id + ": " + there + " is the part whose submission got no answer");
            save(*job);
            continue;
        }
        if (home_comes || (found.known && !coalloc::final(job->state))) continue;
        cancel_stray(*job, mark->attempt, site, view);
    }
    find_submitted(site, began, jobs);
}

void Broker::cancel_stray(const Job &job, int attempt, const std::string &site, const slurm::JobView &view) {
    util::log_info("job " + job.id + ": site " + site + ": job " + std::to_string(view.id) +
                   " is left over; cancelled");
    const auto number = begin_effect({0, job.id, attempt, site, "cancel", clock_.now()});
    sites_.call(site, view.user, sites_.line(site)->api->cancel(view.id), cancel_timeout,
                [this, number](Result<slurm::Reply> reply) { end_effect(number, reply); });
}

// A submission that left nothing by now has never been taken.
void Broker::find_submitted(const std::string &site, Seconds began, const std::vector<slurm::JobView> &jobs) {
    for (const auto *live : std::vector(live_)) {
        auto &job = jobs_.at(live->id);
        if (began < job.entered + submit_settles || asked_.count(job.id + "/" + site + "/submit")) continue;
        for (auto &part : job.parts) {
            if (part.site != site || part.state != PartState::submitting) continue;
            const bool there = std::any_of(jobs.begin(), jobs.end(), [&](const slurm::JobView &view) {
                const auto mark = util::parse_comment(view.comment);
                return mark && mark->job == job.id && mark->attempt == job.attempt;
            });
            if (there) continue;
            part.state = PartState::unsubmitted;
            util::log_info("job " + job.id + ": site " + site +
                           ": the submission without an answer was never taken");
            save(job);
            advance(job);
        }
    }
}

} // namespace spider::broker
