// SPDX-License-Identifier: GPL-3.0-or-later
#include "slurm/views.h"

namespace spider::slurm {

int NodeView::gpu_count() const {
    int sum = 0;
    for (const GpuCount &gpu : gpus)
        sum += gpu.count;
    return sum;
}

int NodeView::free_gpus() const {
    int sum = 0;
    for (const GpuCount &gpu : gpus)
        sum += gpu.count - gpu.used;
    return free_now ? sum : 0;
}

} // namespace spider::slurm
