/*
 * The exact and the blocking tier inside the kernel. Only BTF-based programs: nothing here needs tracefs or kprobes.
 *
 * Loaded when a window opens, gone when it closes. Ring discipline: a place is taken by an atomic add, the clock is read after that, the
 * sequence number is stored last. One ring per CPU; what interrupts a producer takes another place, so nothing ever waits.
 */
#include "kernel.h"
#include "wire.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool blocking = false;
const volatile bool read_row = true;
const volatile u32 postmaster = 0;
const volatile u32 ring_size = 1024; /* a power of two */
const volatile u32 at_state = 0, at_times = 0, at_query = 0; /* in PgBackendStatus; at_query 0: the version has none */
const volatile u32 at_text = 0; /* of the pointer to the text; 0: none is wanted */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pid_page);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct track);
} tracks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tally);
} tallies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct text);
} texts SEC(".maps");

#define now() bpf_ktime_get_ns()
#define READ(x) (*(volatile typeof(x) *)&(x))
#define WRITE_TO(x, v) (*(volatile typeof(x) *)&(x) = (v))

static __always_inline u16 *entry_of(u32 pid)
{
	u32 page = pid / PIDS_PER_PAGE;
	struct pid_page *p = bpf_map_lookup_elem(&pids, &page);
	return p ? &p->track[pid % PIDS_PER_PAGE] : NULL;
}

static __always_inline struct track *track_of(u32 pid, u32 *index)
{
	u16 *entry = entry_of(pid);
	if (!entry)
		return NULL;
	*index = READ(*entry);
	if (!*index)
		return NULL;
	return bpf_map_lookup_elem(&tracks, index);
}

static __always_inline struct tally *tally(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&tallies, &cpu);
}

/* A place in this CPU's ring, or nothing, which is counted. */
static __always_inline struct record *reserve(u64 *seq)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = bpf_map_lookup_elem(&rings, &cpu);
	if (!ring)
		return NULL;
	/* Some places are left for what interrupts us between this look and the add. */
	u64 used = READ(ring->head) - READ(ring->tail);
	if (used + 4 > ring_size) {
		u64 t = now();
		if (READ(ring->lost) == READ(ring->lost_seen))
			WRITE_TO(ring->lost_first, t);
		WRITE_TO(ring->lost_last, t);
		__sync_fetch_and_add(&ring->lost, 1);
		return NULL;
	}
	u64 at = __sync_fetch_and_add(&ring->head, 1);
	u32 place = cpu * ring_size + (at & (ring_size - 1));
	*seq = at + 1;
	return bpf_map_lookup_elem(&records, &place);
}

static __always_inline void commit(struct record *r, u64 seq)
{
	/* An exchange is a full barrier on every architecture. */
	__sync_lock_test_and_set(&r->seq, seq);
}

static __always_inline void begin(struct track *t)
{
	WRITE_TO(t->version, t->version + 1);
	asm volatile("" ::: "memory");
}

static __always_inline void end(struct track *t)
{
	asm volatile("" ::: "memory");
	WRITE_TO(t->version, t->version + 1);
}

static __always_inline void look_at_row(struct track *t, struct row *row)
{
	u64 at = READ(t->status);
	row->seen = 0;
	if (!read_row || !at)
		return;
	u32 state = 0;
	s64 times[2] = {}, query = 0;
	long bad = bpf_probe_read_user(&state, sizeof state, (void *)(at + at_state));
	bad |= bpf_probe_read_user(times, sizeof times, (void *)(at + at_times));
	if (at_query)
		bad |= bpf_probe_read_user(&query, sizeof query, (void *)(at + at_query));
	if (bad) {
		struct tally *c = tally();
		if (c)
			c->faults++;
		return;
	}
	row->activity_start = times[0];
	row->state_start = times[1];
	row->query = query;
	row->state = state;
	row->seen = 1;
}

/* Keeps the text of a statement that has no query id, once. It is there until the next one: user space would come too late. */
static __always_inline u32 keep_text(struct track *k, const struct row *row)
{
	if (!at_text || !row->seen || row->query || !row->activity_start || row->activity_start == k->text_of)
		return 0;
	u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = bpf_map_lookup_elem(&rings, &cpu);
	if (!ring)
		return 0;
	u32 place = cpu * TEXTS + (__sync_fetch_and_add(&ring->texts, 1) & (TEXTS - 1));
	struct text *text = bpf_map_lookup_elem(&texts, &place);
	u64 at = 0;
	if (!text || bpf_probe_read_user(&at, sizeof at, (void *)(k->status + at_text)) || !at)
		return 0;
	__sync_lock_test_and_set(&text->pid, 0);
	long len = bpf_probe_read_user_str(text->sql, TEXT_BYTES, (void *)at);
	if (len <= 1)
		return 0;
	text->len = len;
	text->activity_start = row->activity_start;
	__sync_lock_test_and_set(&text->pid, k->pid);
	k->text_of = row->activity_start;
	return place + 1;
}

/*
 * On-CPU time up to `t`, of a process that is on the CPU. When no switch of it was seen it has been there since it was taken in: had it got
 * the CPU later, that would have been one.
 */
static __always_inline u64 cpu_until(struct track *k, u64 t)
{
	if (!k->on && !k->known)
		k->on = k->since0;
	u64 on = k->on ? k->on : t;
	return k->cpu + (t > on ? t - on : 0);
}

/*
 * Brings on-CPU time up to date at a switch. The kernel's own account leaves out what interrupts and the hypervisor took; it is right at a switch,
 * and only then. It goes from one switch to the next, so it stays right when one was not told.
 */
static __always_inline void account(struct track *k, struct task_struct *task, u64 running_until)
{
	u64 ran = task->se.sum_exec_runtime;
	if (k->known)
		k->cpu += ran - k->ran;
	else if (running_until)
		k->cpu = cpu_until(k, running_until);
	k->ran = ran;
	k->known = 1;
}

static __always_inline void fill(struct record *r, struct track *k, u32 index, enum kind kind)
{
	r->since = k->at;
	r->woken = 0;
	r->cpu_out = 0;
	r->runq_out = 0;
	r->frame = 0;
	r->now = 0;
	r->text = 0;
	r->old = k->event;
	r->pid = k->pid;
	r->turn = k->turn;
	r->track = index;
	r->kind = kind;
}

SEC("perf_event")
int on_write(struct bpf_perf_event_data *ctx)
{
	u32 index = 0, event = 0;
	struct track *k = track_of((u32)bpf_get_current_pid_tgid(), &index);
	if (!k)
		return 0;
	struct tally *c = tally();
	if (c)
		c->writes++;
	u64 seq = 0;
	struct record *r = reserve(&seq);
	u64 t = now();
	if (bpf_probe_read_user(&event, sizeof event, (void *)k->word)) {
		event = k->event;
		if (c)
			c->faults++;
	}
	begin(k);
	u64 cpu = cpu_until(k, t);
	k->turn++;
	if (r) {
		fill(r, k, index, WRITE);
		r->stamp = t;
		r->at = t;
		r->cpu = cpu;
		r->runq = k->runq;
		r->now = event;
		look_at_row(k, &r->row);
		r->text = keep_text(k, &r->row);
	}
	k->at = t;
	k->event = event;
	end(k);
	if (r)
		commit(r, seq);
	return 0;
}

/* What the trap itself costs. */
SEC("perf_event")
int on_write_empty(struct bpf_perf_event_data *ctx)
{
	return 0;
}

/*
 * Tells system calls of a process apart. wait_event_info changes in user mode only, so sleeps of one system call are sleeps of one wait.
 * Compares what the kernel keeps of user mode's registers, and the counts of reads and writes; never 0.
 */
static __always_inline u64 frame_of(struct task_struct *task)
{
	u64 words[21], hash = 0xcbf29ce484222325ULL;
	void *regs = (void *)bpf_task_pt_regs(task);
	if (!regs || bpf_probe_read_kernel(words, sizeof words, regs))
		return 0;
#pragma unroll
	for (int i = 0; i < 21; i++)
		hash = ((hash ^ words[i]) * 0x9e3779b97f4a7c15ULL) ^ (hash >> 29);
	if (bpf_core_field_exists(task->ioac.syscr))
		hash = (hash ^ task->ioac.syscr) * 0x9e3779b97f4a7c15ULL ^ (task->ioac.syscw << 20);
	return hash | 1;
}

static __always_inline bool is_sleeping(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state != 0;
	struct task_struct___before_5_14 *old = (void *)task;
	return old->state != 0;
}

/* Classes whose waits are system calls that may sleep several times. */
#define IO_CLASS 0x0a

/* It is on the CPU from `t` on. */
static __always_inline void runs(struct track *k, u32 index, u64 t)
{
	bool asleep = k->asleep;
	u64 out = k->out, woken = k->woken;
	if (!out) {
		/* Off the CPU ever since it was taken in: in the wait it was found in. */
		out = k->since0;
		asleep = true;
		if (!woken)
			woken = out;
	}
	u64 ran_from = asleep ? (woken > out ? woken : out) : out;
	if (t > ran_from)
		k->runq += t - ran_from;
	k->on = t;
	k->out = 0;
	if (blocking && asleep && k->event) {
		k->turn++;
		u64 seq = 0;
		struct record *r = reserve(&seq);
		if (r) {
			fill(r, k, index, SLEPT);
			r->stamp = now();
			r->at = t;
			r->since = out;
			r->woken = ran_from;
			r->cpu = k->cpu;
			r->runq = k->runq;
			r->cpu_out = k->cpu_out;
			r->runq_out = k->runq_out;
			r->frame = k->frame;
			r->row = k->row;
			r->text = k->text;
			k->text = 0;
			commit(r, seq);
		}
	}
	k->asleep = 0;
}

static __always_inline void odd(void)
{
	struct tally *c = tally();
	if (c)
		c->odd++;
}

static __always_inline void enters(struct track *k, u32 index, struct task_struct *task, u64 t)
{
	begin(k);
	if (k->on && k->known)
		odd();
	account(k, task, 0);
	runs(k, index, t);
	end(k);
}

static __always_inline void leaves(struct track *k, u32 index, struct task_struct *task, bool preempt, u64 t)
{
	begin(k);
	if (k->known && !k->on) {
		/* Kernels were seen not to tell that a process got the CPU, once in thousands. How long it ran says when that was. */
		u64 ran = task->se.sum_exec_runtime - k->ran, from = t - ran;
		if (ran > t || from < k->out)
			from = k->out;
		odd();
		runs(k, index, from);
	}
	account(k, task, t);
	k->on = 0;
	k->out = t;
	k->woken = 0;
	k->asleep = !preempt && is_sleeping(task);
	if (blocking && k->asleep) {
		u32 event = 0;
		if (bpf_probe_read_user(&event, sizeof event, (void *)k->word)) {
			struct tally *c = tally();
			if (c)
				c->faults++;
		}
		k->event = event;
		k->cpu_out = k->cpu;
		k->runq_out = k->runq;
		k->frame = event >> 24 == IO_CLASS ? frame_of(task) : 0;
		if (event) {
			look_at_row(k, &k->row);
			k->text = keep_text(k, &k->row);
		}
	}
	end(k);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 index = 0;
	u64 t = now();
	struct track *k = track_of(prev->pid, &index);
	if (k)
		leaves(k, index, prev, preempt, t);
	k = track_of(next->pid, &index);
	if (k) {
		struct tally *c = tally();
		if (c)
			c->switches++;
		enters(k, index, next, t);
	}
	return 0;
}

/* What being called at every switch costs. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_empty, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	u32 index = 0;
	struct track *k = track_of(task->pid, &index);
	if (k)
		WRITE_TO(k->woken, now());
	return 0;
}

static __always_inline void told(struct task_struct *task, enum kind kind)
{
	u64 seq = 0;
	struct record *r = reserve(&seq);
	if (!r)
		return;
	u64 t = now();
	__builtin_memset(&r->stamp, 0, sizeof *r - sizeof r->seq);
	r->stamp = t;
	r->at = t;
	r->pid = task->pid;
	r->kind = kind;
	commit(r, seq);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (parent->tgid == postmaster && child->pid == child->tgid)
		told(child, BORN);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 index = 0;
	struct track *k = track_of(task->pid, &index);
	if (!k) {
		if (task->real_parent->tgid == postmaster && task->pid == task->tgid)
			told(task, DIED);
		return 0;
	}
	u64 seq = 0;
	struct record *r = reserve(&seq);
	u64 t = now();
	begin(k);
	u64 cpu = cpu_until(k, t);
	k->turn++;
	if (r) {
		fill(r, k, index, DIED);
		r->stamp = t;
		r->at = t;
		r->cpu = cpu;
		r->runq = k->runq;
		r->row.seen = 0;
	}
	k->cpu = cpu;
	k->on = 0;
	end(k);
	/* The id may be used again at once. */
	u16 *entry = entry_of(task->pid);
	if (entry)
		WRITE_TO(*entry, 0);
	if (r)
		commit(r, seq);
	return 0;
}

/* Run on each CPU by user space: whoever is on it now has been since it was taken in, unless a switch said otherwise. */
SEC("raw_tp/look")
int look(struct bpf_raw_tracepoint_args *ctx)
{
	u32 index = 0;
	struct track *k = track_of((u32)bpf_get_current_pid_tgid(), &index);
	if (k && !k->known && !k->on) {
		begin(k);
		cpu_until(k, 0);
		end(k);
	}
	return 0;
}
