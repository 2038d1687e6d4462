/* The few kernel structures we read. CO-RE moves every member to where the running kernel has it, so no header of that kernel is needed. */
#ifndef PGWT_KERNEL_H
#define PGWT_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __le16;
typedef __u32 __le32;
typedef __u64 __le64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* bpf_tracing.h names registers as the kernel does when it thinks the kernel's own header is in use. */
#define __VMLINUX_H__ 1

enum { BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_F_MMAPABLE = 1U << 10 };

#define CO_RE __attribute__((preserve_access_index))

struct task_io_accounting {
	u64 syscr;
	u64 syscw;
} CO_RE;

struct sched_entity {
	u64 sum_exec_runtime;
} CO_RE;

struct task_struct {
	struct sched_entity se;
	int pid;
	int tgid;
	unsigned int __state;
	struct task_struct *real_parent;
	struct task_io_accounting ioac;
} CO_RE;

/* Before 5.14 the member was called so. */
struct task_struct___before_5_14 {
	volatile long state;
} CO_RE;

/* Only its first words are compared, so it is taken as words: any architecture. */
struct pt_regs;

struct bpf_perf_event_data;
struct bpf_raw_tracepoint_args;

#endif
