// SPDX-License-Identifier: GPL-3.0-or-later
// What may happen next in the world of the model check.
#include "unit/coalloc_world.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace spider::coalloc {
namespace {

struct Place {
    Byte job, attempt, site; // attempt from 0
};

template <class Act>
void each_actual(const World &world, Act act) {
    for (Byte job = 0; job < most_jobs; ++job)
        for (Byte attempt = 0; attempt < world.jobs[job].attempt; ++attempt)
            for (Byte site = 0; site < most_sites; ++site)
                if (live(world.there[job][attempt][site].state)) act(Place{job, attempt, site});
}

Actual &at(World &world, Place place) { return world.there[place.job][place.attempt][place.site]; }

int busy(const World &world, Byte site) {
    int count = world.local[site] >= Local::last;
    each_actual(world, [&](Place place) {
        if (place.site == site) count += world.there[place.job][place.attempt][site].state == There::running;
    });
    return count;
}

bool may_start(const Rules &rules, const World &world, Place place) {
    const auto &actual = world.there[place.job][place.attempt][place.site];
    return actual.state == There::pending && actual.begins == 0 &&
           busy(world, place.site) < rules.capacity[place.site];
}

void start_anew(Actual &actual, There as) {
    actual.state = as;
    actual.note = Note::none; // it was meant for the run before
    actual.started = 0;
    actual.ahead = static_cast<Byte>(std::min<int>(actual.ahead + 1, 2));
}

bool gives_back(const Actual &actual) {
    return actual.state == There::running && actual.note == Note::back && actual.started == 0;
}
bool obeys(const Actual &actual) { return actual.state == There::running && actual.note == Note::go; }

// The script begins: so all others of the attempt must be there, too.
void start(World &world, Place place) {
    auto &actual = at(world, place);
    actual.started = 1;
    const auto &job = world.jobs[place.job];
    if (job.requeued || place.attempt + 1 != job.attempt) return;
    for (std::size_t i = 0; i < job.size; ++i) {
        const auto state = world.there[place.job][place.attempt][job.parts[i].site].state;
        if (state == There::none || (live(state) && state != There::running))
            world.broken = Broken::obeyed_alone;
    }
}

class Steps {
  public:
    Steps(const Rules &rules, const World &world, const Emit &emit)
        : rules_(rules), world_(world), emit_(emit) {}

    void sites_act() {
        each_actual(world_, [&](Place place) {
            const auto &actual = world_.there[place.job][place.attempt][place.site];
            if (may_start(rules_, world_, place))
                change("site starts", place, [&](Actual &part) { part.state = There::running; });
            if (gives_back(actual))
                change("gives back", place, [&](Actual &part) { start_anew(part, There::held); });
            if (obeys(actual)) {
                auto next = world_;
                start(next, place);
                at(next, place).state = There::completed;
                emit_({"completes", place.job, place.site}, next);
            }
            if (actual.user_held)
                change("user releases", place, [](Actual &part) {
                    part.state = There::pending;
                    part.user_held = 0;
                });
            if (actual.begins) change("begin time", place, [](Actual &part) { part.begins = 0; });
        });
        for (Byte site = 0; site < most_sites; ++site) {
            auto next = world_;
            if (world_.local[site] == Local::waiting && busy(world_, site) < rules_.capacity[site]) {
                next.local[site] = Local::running;
                emit_({"local job starts", 0, site}, next);
            } else if (world_.local[site] >= Local::last) {
                next.local[site] = Local::none;
                emit_({"local job ends", 0, site}, next);
            }
            if (world_.silent[site]) {
                next = world_;
                next.silent[site] = 0;
                emit_({"site answers again", 0, site}, next);
            }
        }
    }

    // c: a user cancels a part, C: the job; f: a part fails, n: can never start; h: its user holds a part;
    // r: a site starts a part anew, q: and holds it; s: a site goes silent; l: an answer is lost, or the
    // broker is killed between an act and its entry in the journal
    void sites_fail() {
        if (world_.faults == 0) return;
        each_actual(world_, [&](Place place) {
            const auto &actual = world_.there[place.job][place.attempt][place.site];
            const auto &job = world_.jobs[place.job];
            if (may('c')) fault("scancel", place, [](Actual &part) { part = {.state = There::cancelled}; });
            if (may('f') && actual.state == There::running)
                fault("fails", place, [](Actual &part) { part = {.state = There::failed}; });
            if (may('n') && actual.state == There::pending)
                fault("can never start", place, [](Actual &part) { part.state = There::never; });
            if (may('h') && place.attempt + 1 == job.attempt && actual.state == There::pending)
                fault("user holds", place, [](Actual &part) {
                    part.state = There::held;
                    part.user_held = 1;
                });
            if (may('r') && actual.state == There::running)
                fault("site requeues", place, [](Actual &part) { start_anew(part, There::pending); });
            if (may('q') && actual.state == There::running)
                fault("site requeues, held", place, [](Actual &part) { start_anew(part, There::held); });
        });
        for (Byte site = 0; site < most_sites && may('s'); ++site) {
            if (world_.silent[site]) continue;
            auto next = spent();
            next.silent[site] = 1;
            emit_({"site goes silent", 0, site}, next);
        }
        for (Byte job = 0; job < most_jobs && may('C'); ++job) {
            auto next = spent();
            ask_cancel(rules_, next, job);
            emit_({"spiderflow cancel", job, 0}, next);
        }
    }

    void broker_acts() {
        const bool lossy = world_.faults > 0 && may('l');
        for (Byte job = 0; job < most_jobs; ++job) {
            const auto &kept = world_.jobs[job];
            if (final(kept.state)) continue;
            act("decide", job, 0, [&](World &next) { advance(rules_, next, job); });
            if (kept.state == State::asked) continue; // what its parts say does not count any more
            for (Byte i = 0; i < kept.size; ++i) {
                const auto &seen = kept.parts[i];
                if (seen.known || seen.state == PartState::submitting) {
                    act("look", job, i, [&](World &next) { look(rules_, next, job, i, false); });
                    if (rules_.estimates && seen.state == PartState::pending)
                        act("look near", job, i, [&](World &next) { look(rules_, next, job, i, true); });
                }
                if (kept.state != State::placing || seen.state != PartState::unsubmitted) continue;
                act("submit", job, i, [&](World &next) { submit(rules_, next, job, i, true); });
                if (lossy)
                    lose("submit, lost", job, i, [&](World &next) { submit(rules_, next, job, i, false); });
            }
            for (const auto &wanted : acts_of(rules_, world_, job)) {
                const auto part = static_cast<Byte>(wanted.part);
                const auto *verb = name(wanted.verb).data();
                act(verb, job, part, [&](World &next) { perform(rules_, next, job, wanted, true); });
                if (lossy)
                    lose(verb, job, part, [&](World &next) { perform(rules_, next, job, wanted, false); });
            }
        }
        act("strays", 0, 0, [](World &next) { cancel_strays(next); });
    }

    void time_passes() {
        for (Byte job = 0; job < most_jobs; ++job) {
            const auto &kept = world_.jobs[job];
            if (final(kept.state)) continue;
            act("pause over", job, 0, [&](World &next) { next.jobs[job].paused = 0; });
            if (kept.state == State::asked)
                act("attempt due", job, 0, [&](World &next) { next.jobs[job].waited = 1; });
            for (Byte i = 0; i < kept.size; ++i) {
                if (kept.parts[i].idle == Timer::young)
                    act("patience over", job, i,
                        [&](World &next) { next.jobs[job].parts[i].idle = Timer::over; });
                if (kept.parts[i].unseen == Timer::young)
                    act("silent long", job, i,
                        [&](World &next) { next.jobs[job].parts[i].unseen = Timer::over; });
            }
        }
    }

  private:
    bool may(char fault) const { return rules_.may_fail.find(fault) != std::string::npos; }
    World spent() const {
        auto next = world_;
        --next.faults;
        return next;
    }
    template <class Change>
    void change(const char *what, Place place, Change how) {
        auto next = world_;
        how(at(next, place));
        emit_({what, place.job, place.site}, next);
    }
    template <class Change>
    void fault(const char *what, Place place, Change how) {
        auto next = spent();
        if (std::strncmp(what, "site requeues", 13) == 0) next.jobs[place.job].requeued = 1;
        how(at(next, place));
        emit_({what, place.job, place.site}, next);
    }
    template <class Change>
    void act(const char *what, Byte job, Byte part, Change how) {
        auto next = world_;
        how(next);
        emit_({what, job, part}, next);
    }
    template <class Change>
    void lose(const char *what, Byte job, Byte part, Change how) {
        auto next = spent();
        how(next);
        emit_({what, job, part}, next);
    }
    const Rules &rules_;
    const World &world_;
    const Emit &emit_;
};

bool same(const World &one, const World &other) { return std::memcmp(&one, &other, sizeof one) == 0; }

void sites_round(const Rules &rules, World &world, Byte first) {
    world.silent = {};
    std::vector<Place> places;
    each_actual(world, [&](Place place) { places.push_back(place); });
    const auto later = [&](Place place) {
        return first < most_jobs ? place.job != first : place.job != place.site % most_jobs;
    };
    std::stable_partition(places.begin(), places.end(), [&](Place place) { return !later(place); });
    for (const auto place : places) {
        auto &actual = at(world, place);
        if (actual.user_held) {
            actual.state = There::pending;
            actual.user_held = 0;
        }
        if (gives_back(actual)) start_anew(actual, There::held);
        if (!obeys(actual)) continue;
        start(world, place);
        actual.state = There::completed;
    }
    for (const auto place : places)
        if (may_start(rules, world, place)) at(world, place).state = There::running;
}

void broker_round(const Rules &rules, World &world) {
    for (Byte job = 0; job < most_jobs; ++job) {
        const auto &kept = world.jobs[job];
        if (final(kept.state)) continue;
        for (Byte i = 0; i < kept.size && kept.state != State::asked; ++i)
            if (kept.parts[i].known || kept.parts[i].state == PartState::submitting)
                look(rules, world, job, i, false);
        for (auto before = world;; before = world) {
            advance(rules, world, job);
            if (same(before, world)) break;
        }
        for (Byte i = 0; i < kept.size && kept.state == State::placing; ++i)
            if (kept.parts[i].state == PartState::unsubmitted) submit(rules, world, job, i, true);
        for (const auto &wanted : acts_of(rules, world, job))
            perform(rules, world, job, wanted, true);
    }
    cancel_strays(world);
}

void time_round(World &world) {
    const auto before = world;
    for (auto &job : world.jobs) {
        if (final(job.state)) continue;
        job.paused = 0;
        job.waited = job.state == State::asked;
        for (Byte i = 0; i < job.size; ++i)
            for (auto *timer : {&job.parts[i].idle, &job.parts[i].unseen})
                if (*timer == Timer::young) *timer = Timer::over;
    }
    if (!same(before, world)) return;
    each_actual(before, [&](Place place) { at(world, place).begins = 0; });
    for (auto &local : world.local)
        local = local <= Local::last ? Local::none : static_cast<Local>(static_cast<Byte>(local) - 1);
}

} // namespace

World first_world(const Rules &rules) {
    World world;
    std::memset(static_cast<void *>(&world), 0, sizeof world);
    world.faults = rules.faults;
    for (std::size_t site = 0; site < most_sites; ++site)
        world.local[site] = rules.locals[site] ? Local::waiting : Local::none;
    for (std::size_t j = 0; j < most_jobs; ++j) {
        auto &job = world.jobs[j];
        job.state = State::placing;
        job.attempt = 1;
        job.size = static_cast<Byte>(rules.sites[j].size());
        for (Byte i = 0; i < job.size; ++i) {
            job.parts[i].site = rules.sites[j][i];
            if (i == 0 || !rules.from_placing) submit(rules, world, j, i, true);
        }
        if (!rules.from_placing) advance(rules, world, j);
    }
    return world;
}

void each_step(const Rules &rules, const World &world, const Emit &emit) {
    Steps steps(rules, world, emit);
    steps.sites_act();
    steps.sites_fail();
    steps.broker_acts();
    steps.time_passes();
}

void check(const Rules &rules, World &world) {
    for (Byte site = 0; site < most_sites; ++site)
        if (busy(world, site) > rules.capacity[site]) world.broken = Broken::crowded;
    each_actual(world, [&](Place place) {
        const auto &job = world.jobs[place.job];
        const bool left = job.left_out >> place.site & 1;
        const bool current = place.attempt + 1 == job.attempt;
        if (current ? final(job.state) || job.state == State::asked : !left) world.broken = Broken::orphaned;
    });
}

World fair_round(const Rules &rules, const World &world, Byte first) {
    auto next = world;
    sites_round(rules, next, first);
    broker_round(rules, next);
    if (same(next, world)) time_round(next);
    return next;
}

bool all_ended(const World &world) {
    return std::all_of(world.jobs.begin(), world.jobs.end(),
                       [](const auto &job) { return final(job.state); });
}

bool idles_too_long(const World &world, std::size_t job, std::size_t part) {
    const auto &kept = world.jobs[job];
    const auto &seen = kept.parts[part];
    const auto &actual = world.there[job][kept.attempt - 1u][seen.site];
    return part < kept.size && actual.state == There::running && actual.note != Note::go &&
           seen.idle == Timer::over;
}

std::string describe(const World &world) {
    static constexpr std::array<const char *, 8> theres{"none",    "held",      "pending", "never",
                                                        "running", "completed", "failed",  "cancelled"};
    std::ostringstream text;
    for (std::size_t j = 0; j < most_jobs; ++j) {
        const auto &job = world.jobs[j];
        text << "  job " << j + 1 << "/" << int(job.attempt) << " " << name(job.state)
             << (job.user_hold ? " user_hold" : "") << (job.again ? " again" : "");
        for (std::size_t i = 0; i < job.size; ++i) {
            const auto &seen = job.parts[i];
            const auto &actual = world.there[j][job.attempt - 1u][seen.site];
            text << " | s" << seen.site + 1 << " " << theres[static_cast<std::size_t>(actual.state)]
                 << (actual.ahead ? "+" : "") << ", seen " << name(seen.state)
                 << (seen.released ? " released" : "") << (seen.giving_back ? " giving_back" : "")
                 << (seen.word_given ? " word" : "") << (seen.idle == Timer::over ? " idle-long" : "");
        }
        text << "\n";
    }
    return text.str();
}

} // namespace spider::coalloc
