// SPDX-License-Identifier: GPL-3.0-or-later
#include "broker/recover.h"

#include "broker/journal.h"
#include "broker/server.h"
#include "broker/sites.h"
#include "util/comment.h"
#include "util/text.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace spider::broker {

using coalloc::PartState;
using coalloc::State;

namespace {

// Users may write into their comments what they like. A larger number would soon leave none.
constexpr std::int64_t largest_number = 1'000'000'000'000'000;

// A marked job at a site.
struct Found {
    const SiteConfig *site = nullptr;
    slurm::JobView view;
    util::Comment mark;
};
using Group = std::vector<Found>; // of one federated job, the home site's first

// -- who

struct Account {
    std::string name;
    std::uint32_t uid = 0;
};

std::optional<Account> account_of(const std::string &name) {
    std::vector<char> space(16 << 10);
    ::passwd entry{};
    ::passwd *found = nullptr;
    while (::getpwnam_r(name.c_str(), &entry, space.data(), space.size(), &found) == ERANGE)
        space.resize(space.size() * 2);
    if (found == nullptr) return std::nullopt;
    return Account{name, found->pw_uid};
}

// Names on this host that are `user` at the site.
std::set<std::string> names_of(const SiteConfig &site, const std::string &user) {
    std::set<std::string> names;
    if (mapped(site.users, user) == user) names.insert(user);
    for (const auto &[here, there] : site.users)
        if (there == user) names.insert(here);
    return names;
}

std::string in_words(const Found &found) {
    return "site " + found.site->name + ": job " + std::to_string(found.view.id);
}

// The one account on this host whose jobs all of them can be.
Result<Account> owner_of(const std::vector<Found> &parts) {
    std::vector<Account> accounts;
    for (const auto &name : names_of(*parts.front().site, parts.front().view.user)) {
        const auto his = [&](const Found &part) {
            return names_of(*part.site, part.view.user).count(name) > 0;
        };
        auto account = account_of(name);
        if (account && std::all_of(parts.begin(), parts.end(), his)) accounts.push_back(std::move(*account));
    }
    if (accounts.size() == 1) return accounts.front();
    std::vector<std::string> words;
    for (const auto &part : parts)
        words.push_back(in_words(part) + " of " + part.view.user);
    return Error{Errc::invalid, std::string(accounts.empty() ? "no user" : "more than one user") +
                                    " of this host can own all its parts (" + util::join(words, ", ") +
                                    "); see to the users tables, or scancel them there"};
}

// -- what

bool alive(const Found &found) { return !slurm::is_over(found.view.state); }

// Of the run that goes on: an order for an older one is not obeyed.
bool has_word(const Found &found) {
    return !found.mark.word.empty() && found.mark.run == found.view.restarts && !found.mark.back;
}

bool runs_with_word(const Found &found) {
    return alive(found) && found.view.state != slurm::JobState::pending && has_word(found);
}

bool completed(const Found &found) {
    return found.view.state == slurm::JobState::completed && found.view.exit_code == 0;
}

PartState state_of(const slurm::JobView &view) {
    if (slurm::is_over(view.state)) return PartState::completed; // others are not taken
    if (view.state != slurm::JobState::pending) return PartState::running;
    return view.held ? PartState::held : PartState::pending;
}

coalloc::PartRecord record_of(const Found &found) {
    coalloc::PartRecord part;
    part.site = found.site->name;
    part.job = found.view.id;
    part.user = found.view.user;
    part.state = state_of(found.view);
    part.slurm_state =
        found.view.state_text + (found.view.reason.empty() ? "" : " (" + found.view.reason + ")");
    part.hosts = found.view.nodes;
    part.restarts = found.view.restarts;
    part.released = part.state != PartState::held;
    part.word_given = has_word(found);
    return part;
}

// All of the latest attempt run with the word, but for those that are through.
bool goes_on(const Group &latest) {
    std::set<std::string> sites;
    bool any = false;
    for (const auto &part : latest) {
        if (!runs_with_word(part) && !completed(part)) return false;
        if (!sites.insert(part.site->name).second) return false;
        any = any || alive(part);
    }
    return any;
}

coalloc::Job job_of(const Group &parts, State state, Seconds now) {
    const auto &first = parts.front();
    coalloc::Job job;
    job.id = first.mark.job;
    job.name = first.view.name;
    job.user_comment = first.mark.user;
    job.state = state;
    job.reason = state == State::running ? "found at its sites when the journal was lost"
                                         : "its plan was lost with the journal";
    job.entered = now;
    job.submitted = std::numeric_limits<Seconds>::max();
    job.plan.outcome = Outcome::planned;
    job.plan.reason = "lost with the journal";
    for (const auto &part : parts) {
        job.submitted = std::min(job.submitted, static_cast<Seconds>(part.view.submit_time));
        job.attempt = std::max(job.attempt, part.mark.attempt);
        if (job.word.empty()) job.word = part.mark.word;
        job.plan.parts.push_back({part.site->name, "", {}});
        job.parts.push_back(record_of(part));
    }
    job.history.push_back({now, state, job.reason});
    return job;
}

template <class Predicate>
Group those(const Group &group, Predicate predicate) {
    Group some;
    std::copy_if(group.begin(), group.end(), std::back_inserter(some), predicate);
    return some;
}

// -- one federated job

std::string said(const coalloc::Job &job) {
    std::vector<std::string> parts;
    for (const auto &part : job.parts)
        parts.push_back("site " + part.site + ": job " + std::to_string(part.job) + " " + part.slurm_state);
    return job.id + " of " + job.user + ": " +
           (job.state == State::running ? "running: " : "to be cancelled: ") + util::join(parts, ", ");
}

// What the journal has is right. The broker's sweep cancels the parts that are not in it.
void compare(const coalloc::Job &known, const Group &group, Rebuilt &rebuilt) {
    for (const auto &found : group) {
        const bool in_record =
            std::any_of(known.parts.begin(), known.parts.end(), [&](const coalloc::PartRecord &part) {
                return part.site == found.site->name && part.job == found.view.id;
            });
        if (alive(found) && !in_record)
            rebuilt.lines.push_back(known.id + ": in the journal, but without " + in_words(found) +
                                    ", which the broker will cancel");
    }
}

void add(std::int64_t number, const Group &group, Seconds now, Rebuilt &rebuilt) {
    const auto living = those(group, alive);
    if (living.empty()) return;
    int attempt = 0;
    for (const auto &found : group)
        attempt = std::max(attempt, found.mark.attempt);
    const auto latest = those(group, [&](const Found &found) { return found.mark.attempt == attempt; });
    const bool running = goes_on(latest);
    const auto &parts = running ? latest : living;
    auto owner = owner_of(parts);
    if (!owner) {
        rebuilt.lines.push_back(parts.front().mark.job + ": left alone: " + owner.error().what);
        return;
    }
    auto job = job_of(parts, running ? State::running : State::ending, now);
    job.sequence = number;
    job.attempt = attempt;
    job.user = owner->name;
    job.uid = owner->uid;
    rebuilt.lines.push_back(said(job));
    rebuilt.jobs.push_back(std::move(job));
}

// Of "s1-17" at home s1.
std::optional<std::int64_t> number_of(const std::string &id, const std::string &home) {
    if (!id.starts_with(home + "-")) return std::nullopt;
    const auto text = id.substr(home.size() + 1);
    const auto number = util::to_int(text);
    if (!number || *number < 1 || *number > largest_number || std::to_string(*number) != text)
        return std::nullopt;
    return number;
}

std::map<std::int64_t, Group> groups_of(const Config &config, const std::vector<SiteJobs> &sites) {
    std::map<std::int64_t, Group> groups;
    for (const bool home : {true, false})
        for (const auto &there : sites) {
            const auto *site = config.site(there.site);
            if (site == nullptr || (there.site == config.home) != home) continue;
            for (const auto &view : there.jobs) {
                auto mark = util::parse_comment(view.comment);
                const auto number = mark ? number_of(mark->job, config.home) : std::nullopt;
                if (number) groups[*number].push_back({site, view, std::move(*mark)});
            }
        }
    return groups;
}

// -- the sites and the journal

Result<std::vector<SiteJobs>> ask_sites(const Config &config, Seconds longest) {
    slurm::Http http;
    const util::SystemClock clock;
    Sites sites(http, clock);
    sites.configure(config, {});
    std::vector<SiteJobs> found;
    std::vector<std::string> silent;
    for (const auto &site : config.sites) {
        const auto &api = *sites.line(site.name)->api;
        sites.call(site.name, site.token_user, api.jobs(), longest, [&](Result<slurm::Reply> reply) {
            auto jobs = reply ? api.read_jobs(*reply) : std::move(reply).error();
            if (jobs && *jobs)
                found.push_back({site.name, std::move(**jobs)});
            else
                silent.push_back("site " + site.name + ": " +
                                 (jobs ? "no list of jobs in its answer" : jobs.error().what));
        });
    }
    while (http.pending() > 0)
        http.turn(longest);
    if (silent.empty()) return found;
    std::sort(silent.begin(), silent.end());
    return Error{Errc::unreachable, util::join(silent, "; ") +
                                        "; every site must answer, so nothing was written; take a site that "
                                        "is gone for good out of the configuration"};
}

// A journal that root makes there could not be written by the service.
Result<void> right_user(const std::string &journal) {
    const auto folder = std::filesystem::path(journal).parent_path().string();
    struct stat about {};
    if (::geteuid() != 0 || ::stat(folder.c_str(), &about) != 0 || about.st_uid == 0) return {};
    const auto *owner = ::getpwuid(about.st_uid);
    const auto name = owner == nullptr ? "#" + std::to_string(about.st_uid) : std::string(owner->pw_name);
    return Error{Errc::denied, "journal " + journal + ": its folder belongs to " + name +
                                   ": run this as that user (sudo -u " + name + " spiderflowd --recover)"};
}

Result<std::int64_t> write(Journal &journal, const Rebuilt &rebuilt) {
    // First: a number must not be given twice, also when this ends half-way.
    if (auto raised = journal.raise_sequence(rebuilt.last); !raised) return std::move(raised).error();
    for (const auto &job : rebuilt.jobs)
        if (auto saved = journal.save(job); !saved) return std::move(saved).error();
    return journal.last_sequence();
}

} // namespace

Rebuilt rebuild(const Config &config, const std::vector<SiteJobs> &sites,
                const std::vector<coalloc::Job> &known, Seconds now) {
    Rebuilt rebuilt;
    for (const auto &[number, group] : groups_of(config, sites)) {
        const auto in_journal = std::find_if(known.begin(), known.end(), [&](const coalloc::Job &job) {
            return job.id == group.front().mark.job;
        });
        if (in_journal != known.end())
            compare(*in_journal, group, rebuilt);
        else
            add(number, group, now, rebuilt);
        rebuilt.last = number; // the map's order
    }
    return rebuilt;
}

Result<std::vector<std::string>> recover(const Config &config, Seconds longest) {
    if (Server::answers(config.socket))
        return Error{Errc::refused, "socket " + config.socket +
                                        ": a spiderflowd answers there; stop it first (systemctl stop "
                                        "spiderflowd)"};
    if (auto right = right_user(config.journal); !right) return std::move(right).error();
    auto sites = ask_sites(config, longest);
    if (!sites) return std::move(sites).error();
    auto journal = Journal::open(config.journal);
    if (!journal) return std::move(journal).error();
    auto known = journal->load(std::numeric_limits<int>::max());
    if (!known) return std::move(known).error();
    auto rebuilt = rebuild(config, *sites, *known, util::SystemClock().now());
    auto last = write(*journal, rebuilt);
    if (!last) return std::move(last).error();
    const auto running = std::count_if(rebuilt.jobs.begin(), rebuilt.jobs.end(),
                                       [](const auto &job) { return job.state == State::running; });
    const auto all = static_cast<std::ptrdiff_t>(rebuilt.jobs.size());
    rebuilt.lines.push_back("recovered " + std::to_string(all) + " jobs: " + std::to_string(running) +
                            " running, " + std::to_string(all - running) + " to be cancelled; next number " +
                            std::to_string(*last + 1));
    return std::move(rebuilt.lines);
}

} // namespace spider::broker
