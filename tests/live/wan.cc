// SPDX-License-Identifier: GPL-3.0-or-later
// A wide-area network between network namespaces: one TUN device in each, and for every ordered pair of
// places a delay, a rate, a queue and a loss. Started by wan.py; ends at SIGTERM with its counts as JSON.
//
//   wan CONTROL DEVICE PLACE=NAMESPACE=ADDRESS...
//
// NAMESPACE is the path of a network namespace. CONTROL has a line "FROM TO DELAY_MS MBPS QUEUE_MS LOSS UP"
// for each pair that is not a wire without length (MBPS 0: no limit), and is read again when it is replaced.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <map>
#include <random>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;
constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();
constexpr std::size_t most_queued = std::size_t{64} << 20; // bytes of a pair, delay and all
constexpr std::size_t largest_packet = 65536;
constexpr Nanoseconds early = 50'000; // by so much a packet may leave, with those before it
constexpr int burst = 64;             // packets of one device before the others have their turn

struct Trouble : std::runtime_error {
    using runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string &what) {
    throw Trouble(what + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
}

Nanoseconds now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * Nanoseconds{1'000'000'000} + time.tv_nsec;
}

Nanoseconds of_ms(double ms) { return static_cast<Nanoseconds>(ms * 1e6); }

struct Place {
    std::string name;
    in_addr_t address = 0;
    int fd = -1;
};

struct Packet {
    std::vector<char> bytes;
    Nanoseconds due = 0;
};

// One direction between two places.
struct Pair {
    Nanoseconds delay = 0, queue = never;
    double nanoseconds_per_byte = 0;
    double loss = 0;
    bool up = true;

    std::deque<Packet> under_way; // in order of `due`
    std::size_t queued = 0;       // bytes of these
    Nanoseconds busy_until = 0;   // its sender
    std::int64_t packets = 0, bytes = 0, drops = 0;

    [[nodiscard]] Nanoseconds next() const { return under_way.empty() ? never : under_way.front().due; }
};

class Wan {
  public:
    Wan(std::string control, const std::string &device, const std::vector<std::string> &places);
    void run();
    void print_counts() const;

  private:
    void open_device(Place &place, const std::string &space, const std::string &device) const;
    void read_control();
    void watch(int fd, std::uint32_t index) const;
    void take_packets(std::size_t from);
    void take(std::size_t from, std::size_t size, Nanoseconds at);
    void deliver();
    [[nodiscard]] Nanoseconds pause(Nanoseconds longest) const;
    [[nodiscard]] std::size_t index_of(const std::string &name) const;
    Pair &pair(std::size_t from, std::size_t to) { return pairs_[from * places_.size() + to]; }
    std::vector<char> buffer();

    std::string control_;
    timespec control_seen_{};
    ino_t control_inode_ = 0;
    std::vector<Place> places_;
    std::vector<Pair> pairs_; // places x places
    std::map<in_addr_t, std::size_t> by_address_;
    std::vector<std::vector<char>> spare_;
    std::array<char, largest_packet> read_{};
    std::mt19937 random_{12345};
    Nanoseconds latest_ = 0; // how late a packet left at worst
    int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    int signals_ = -1;
};

Wan::Wan(std::string control, const std::string &device, const std::vector<std::string> &places)
    : control_(std::move(control)) {
    for (const auto &text : places) {
        const auto first = text.find('='), second = text.rfind('=');
        if (first == std::string::npos || first == second)
            throw Trouble(text + ": expected PLACE=NAMESPACE=ADDRESS");
        Place place{.name = text.substr(0, first)};
        if (::inet_pton(AF_INET, text.substr(second + 1).c_str(), &place.address) != 1)
            throw Trouble(text + ": expected an IPv4 address after the last =");
        open_device(place, text.substr(first + 1, second - first - 1), device);
        by_address_[place.address] = places_.size();
        places_.push_back(place);
    }
    pairs_.resize(places_.size() * places_.size());
    read_control();
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTERM);
    ::sigaddset(&set, SIGINT);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
    if (epoll_ < 0 || signals_ < 0) fail("epoll");
    for (std::size_t i = 0; i < places_.size(); ++i)
        watch(places_[i].fd, static_cast<std::uint32_t>(i));
    watch(signals_, static_cast<std::uint32_t>(places_.size()));
}

void Wan::watch(int fd, std::uint32_t index) const {
    epoll_event event{.events = EPOLLIN, .data = {.u32 = index}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

// A device belongs to the namespace in which it was made.
void Wan::open_device(Place &place, const std::string &space, const std::string &device) const {
    const int home = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const int there = ::open(space.c_str(), O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || ::setns(there, CLONE_NEWNET) != 0) fail(space);
    place.fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    device.copy(request.ifr_name, IFNAMSIZ - 1);
    if (place.fd < 0 || ::ioctl(place.fd, TUNSETIFF, &request) != 0) fail(space + ": " + device);
    if (::setns(home, CLONE_NEWNET) != 0) fail("setns");
    ::close(home);
    ::close(there);
}

std::size_t Wan::index_of(const std::string &name) const {
    for (std::size_t i = 0; i < places_.size(); ++i)
        if (places_[i].name == name) return i;
    throw Trouble(control_ + ": no place '" + name + "'");
}

// When it was replaced. Packets under way keep their times.
void Wan::read_control() {
    struct stat seen {};
    if (::stat(control_.c_str(), &seen) != 0) fail(control_);
    if (seen.st_ino == control_inode_ && seen.st_mtim.tv_sec == control_seen_.tv_sec &&
        seen.st_mtim.tv_nsec == control_seen_.tv_nsec)
        return;
    control_inode_ = seen.st_ino;
    control_seen_ = seen.st_mtim;
    std::ifstream file(control_);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        std::string from, to;
        double delay = 0, mbps = 0, queue = 0, loss = 0;
        int up = 1;
        if (!(words >> from >> to >> delay >> mbps >> queue >> loss >> up) || delay < 0 || mbps < 0 ||
            queue < 0 || loss < 0 || loss > 1) {
            errno = 0;
            fail(control_ + ":" + std::to_string(number) +
                 ": expected FROM TO DELAY_MS MBPS QUEUE_MS LOSS UP");
        }
        auto &changed = pair(index_of(from), index_of(to));
        changed.delay = of_ms(delay);
        changed.queue = of_ms(queue);
        changed.nanoseconds_per_byte = mbps > 0 ? 8000 / mbps : 0;
        changed.loss = loss;
        changed.up = up != 0;
    }
}

std::vector<char> Wan::buffer() {
    if (spare_.empty()) return {};
    auto taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
}

// An IPv4 packet that a place sends.
void Wan::take(std::size_t from, std::size_t size, Nanoseconds at) {
    constexpr std::size_t header = 20, destination = 16;
    if (size < header || (static_cast<unsigned char>(read_[0]) >> 4) != 4) return;
    in_addr_t address = 0;
    std::memcpy(&address, &read_[destination], sizeof address);
    const auto found = by_address_.find(address);
    if (found == by_address_.end()) return;
    auto &way = pair(from, found->second);
    const auto begin = std::max(at, way.busy_until);
    const bool lost = way.loss > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < way.loss;
    const bool full = way.nanoseconds_per_byte > 0 && begin - at > way.queue;
    if (!way.up || lost || full || way.queued + size > most_queued) {
        ++way.drops;
        return;
    }
    way.busy_until = begin + static_cast<Nanoseconds>(static_cast<double>(size) * way.nanoseconds_per_byte);
    auto due = way.busy_until + way.delay;
    if (!way.under_way.empty()) due = std::max(due, way.under_way.back().due); // a change reorders nothing
    auto bytes = buffer();
    bytes.assign(read_.data(), read_.data() + size);
    way.under_way.push_back({std::move(bytes), due});
    way.queued += size;
    ++way.packets;
    way.bytes += static_cast<std::int64_t>(size);
}

void Wan::take_packets(std::size_t from) {
    for (int i = 0; i < burst; ++i) {
        const auto size = ::read(places_[from].fd, read_.data(), read_.size());
        if (size <= 0) return;
        take(from, static_cast<std::size_t>(size), now());
    }
}

// Those whose time has come, in order of time.
void Wan::deliver() {
    for (auto time = now() + early;;) {
        const auto next = std::min_element(pairs_.begin(), pairs_.end(),
                                           [](const Pair &a, const Pair &b) { return a.next() < b.next(); });
        if (next->next() > time) {
            time = now() + early;
            if (next->next() > time) return;
        }
        auto packet = std::move(next->under_way.front());
        next->under_way.pop_front();
        next->queued -= packet.bytes.size();
        latest_ = std::max(latest_, time - early - packet.due);
        const auto to = static_cast<std::size_t>(next - pairs_.begin()) % places_.size();
        (void)!::write(places_[to].fd, packet.bytes.data(), packet.bytes.size());
        if (spare_.size() < 4096) spare_.push_back(std::move(packet.bytes));
    }
}

// Until the next packet is due, `longest` at most.
Nanoseconds Wan::pause(Nanoseconds longest) const {
    Nanoseconds next = never;
    for (const auto &pair : pairs_)
        next = std::min(next, pair.next());
    return std::clamp(next - now(), Nanoseconds{0}, longest);
}

void Wan::run() {
    constexpr Nanoseconds look = 100'000'000; // between looks at the control file
    auto looked = now();
    for (;;) {
        const auto wait = pause(look);
        const timespec timeout{wait / 1'000'000'000, wait % 1'000'000'000};
        std::array<epoll_event, 32> events{};
        const int count =
            ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
        for (int i = 0; i < count; ++i) {
            const auto index = events.at(static_cast<std::size_t>(i)).data.u32;
            if (index < places_.size()) take_packets(index);
            if (index == places_.size()) return; // a signal
        }
        deliver();
        if (now() - looked > look) {
            read_control();
            looked = now();
        }
    }
}

void Wan::print_counts() const {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    std::printf(R"({"cpu_seconds": %.3f, "worst_late_ms": %.3f, "pairs": [)",
                seconds(used.ru_utime) + seconds(used.ru_stime), static_cast<double>(latest_) / 1e6);
    const char *comma = "";
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const auto &pair = pairs_[i];
        if (pair.packets + pair.drops == 0) continue;
        std::printf(R"(%s{"from": "%s", "to": "%s", "packets": %lld, "bytes": %lld, "drops": %lld})", comma,
                    places_[i / places_.size()].name.c_str(), places_[i % places_.size()].name.c_str(),
                    static_cast<long long>(pair.packets), static_cast<long long>(pair.bytes),
                    static_cast<long long>(pair.drops));
        comma = ", ";
    }
    std::printf("]}\n");
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: wan CONTROL DEVICE PLACE=NAMESPACE=ADDRESS...\n");
        return 2;
    }
    try {
        ::setpriority(PRIO_PROCESS, 0, -10); // a late packet is a wrong delay
        Wan wan(argv[1], argv[2], {argv + 3, argv + argc});
        std::printf("ready\n");
        std::fflush(stdout);
        wan.run();
        wan.print_counts();
    } catch (const std::exception &trouble) {
        std::fprintf(stderr, "wan: %s\n", trouble.what());
        return 1;
    }
    return 0;
}
