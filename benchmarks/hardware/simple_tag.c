// The bound for SimpleTag-v0 on a CPU: one scalar step in C with OpenMP, doing the same work as core.step.
// Discrete actions are checked; observation, reward, flags, running and finished returns, final observations and
// SAME_STEP autoreset are written. Layout as in gpu_envs: (world, agent, ...). Build: gcc -O3 -march=native -fopenmp.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <omp.h>

enum { ADVERSARIES = 3, AGENTS = 4, ENTITIES = 6, WIDTH = 16 };

typedef struct {
    const int64_t *action;  // (E, A)
    float *pos, *vel;       // (E, N, 2), (E, A, 2)
    float *obs, *final_obs; // (E, A, D)
    float *reward, *running_return, *episode_return; // (E, A)
    int32_t *episode_length;                         // (E, A)
    bool *terminated, *truncated, *alive, *valid;    // (E, A)
    int32_t *step, *episode;                         // (E,)
    int64_t *error;                                  // (1,)
    uint64_t seed;
    int32_t max_steps;
} Batch;

static const float size_of[ENTITIES] = {0.075f, 0.075f, 0.075f, 0.05f, 0.2f, 0.2f};
static const float accel_of[AGENTS] = {3.0f, 3.0f, 3.0f, 4.0f};
static const float cap_of[AGENTS] = {1.0f, 1.0f, 1.0f, 1.3f};

static void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1; c[3] = (uint32_t)p0; c[0] = n0; c[2] = n2;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
}

static void observe(const Batch *b, long e) {
    const float *pos = b->pos + e * ENTITIES * 2, *vel = b->vel + e * AGENTS * 2;
    for (int i = 0; i < AGENTS; i++) {
        float *o = b->obs + (e * AGENTS + i) * WIDTH;
        float x = pos[2 * i], y = pos[2 * i + 1];
        *o++ = vel[2 * i]; *o++ = vel[2 * i + 1]; *o++ = x; *o++ = y;
        for (int j = AGENTS; j < ENTITIES; j++) { *o++ = pos[2 * j] - x; *o++ = pos[2 * j + 1] - y; }
        for (int j = 0; j < AGENTS; j++) if (j != i) { *o++ = pos[2 * j] - x; *o++ = pos[2 * j + 1] - y; }
        for (int j = ADVERSARIES; j < AGENTS; j++) if (j != i) { *o++ = vel[2 * j]; *o++ = vel[2 * j + 1]; }
    }
}

static void reset_world(Batch *b, long e) {
    b->step[e] = 0;
    b->episode[e]++;
    for (int i = 0; i < ENTITIES; i++) {
        uint32_t c[4] = {(uint32_t)e, (uint32_t)b->episode[e], 0, (uint32_t)i << 12};
        philox(c, (uint32_t)b->seed, (uint32_t)(b->seed >> 32));
        float half = i < AGENTS ? 1.0f : 0.9f;
        b->pos[(e * ENTITIES + i) * 2] = (2.0f * (float)(c[0] >> 8) * 0x1p-24f - 1.0f) * half;
        b->pos[(e * ENTITIES + i) * 2 + 1] = (2.0f * (float)(c[1] >> 8) * 0x1p-24f - 1.0f) * half;
    }
    memset(b->vel + e * AGENTS * 2, 0, sizeof(float) * AGENTS * 2);
    for (int i = 0; i < AGENTS; i++) { b->alive[e * AGENTS + i] = true; b->running_return[e * AGENTS + i] = 0.0f; }
    observe(b, e);
}

static float outside(float x) {
    if (x < 0.9f) return 0.0f;
    if (x < 1.0f) return (x - 0.9f) * 10.0f;
    return fminf(expf(2.0f * x - 2.0f), 10.0f);
}

static void step_world(Batch *b, long e) {
    float *pos = b->pos + e * ENTITIES * 2, *vel = b->vel + e * AGENTS * 2;
    float force[AGENTS][2];
    b->step[e]++;
    for (int i = 0; i < AGENTS; i++) {
        long row = e * AGENTS + i;
        int64_t a = b->action[row];
        b->valid[row] = b->alive[row];
        if (a < 0 || a > 4) { // the same check as in gpu-envs; a race here only matters where there is an error
            int64_t key = (e << 32) | (i << 8) | 1;
            if (key < *b->error) *b->error = key;
            a = 0;
        }
        force[i][0] = accel_of[i] * ((a == 2) - (a == 1));
        force[i][1] = accel_of[i] * ((a == 4) - (a == 3));
    }
    for (int i = 0; i < AGENTS; i++)
        for (int j = i + 1; j < ENTITIES; j++) {
            float dx = pos[2 * i] - pos[2 * j], dy = pos[2 * i + 1] - pos[2 * j + 1];
            float touch = size_of[i] + size_of[j], squared = dx * dx + dy * dy;
            if (squared < (touch + 0.02f) * (touch + 0.02f)) {
                float dist = sqrtf(squared), z = (touch - dist) * 1000.0f;
                float f = 100.0f * (fmaxf(z, 0.0f) + logf(1.0f + expf(-fabsf(z)))) * 1e-3f / fmaxf(dist, 1e-8f);
                force[i][0] += f * dx; force[i][1] += f * dy;
                if (j < AGENTS) { force[j][0] -= f * dx; force[j][1] -= f * dy; }
            }
        }
    for (int i = 0; i < AGENTS; i++) {
        float vx = vel[2 * i], vy = vel[2 * i + 1];
        pos[2 * i] += vx * 0.1f; pos[2 * i + 1] += vy * 0.1f;
        vx = vx * 0.75f + force[i][0] * 0.1f; vy = vy * 0.75f + force[i][1] * 0.1f;
        float squared = vx * vx + vy * vy;
        if (squared > cap_of[i] * cap_of[i]) { float s = cap_of[i] / sqrtf(squared); vx *= s; vy *= s; }
        vel[2 * i] = vx; vel[2 * i + 1] = vy;
    }
    int hits = 0;
    for (int i = 0; i < ADVERSARIES; i++) {
        float dx = pos[2 * i] - pos[6], dy = pos[2 * i + 1] - pos[7];
        hits += sqrtf(dx * dx + dy * dy) < 0.125f;
    }
    bool cut = b->step[e] >= b->max_steps;
    observe(b, e);
    for (int i = 0; i < AGENTS; i++) {
        long row = e * AGENTS + i;
        float r = i < ADVERSARIES ? 10.0f * hits : -10.0f * hits - outside(fabsf(pos[6])) - outside(fabsf(pos[7]));
        b->reward[row] = r;
        b->terminated[row] = false;
        b->truncated[row] = cut;
        b->alive[row] = !cut;
        b->running_return[row] += r;
    }
    if (cut) {
        for (int i = 0; i < AGENTS; i++) {
            long row = e * AGENTS + i;
            b->episode_return[row] = b->running_return[row];
            b->episode_length[row] = b->step[e];
        }
        memcpy(b->final_obs + e * AGENTS * WIDTH, b->obs + e * AGENTS * WIDTH, sizeof(float) * AGENTS * WIDTH);
        reset_world(b, e);
    }
}

void step(Batch *b, long num_envs) {
#pragma omp parallel for schedule(static)
    for (long e = 0; e < num_envs; e++) step_world(b, e);
}

void reset(Batch *b, long num_envs) {
#pragma omp parallel for schedule(static)
    for (long e = 0; e < num_envs; e++) { b->episode[e] = -1; reset_world(b, e); }
}

void set_threads(int threads) { omp_set_num_threads(threads); }
