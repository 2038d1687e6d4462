/* What crosses between the BPF programs and the capture thread: the one description of it. The Rust side is made from these by the skeleton. */
#ifndef PGWT_WIRE_H
#define PGWT_WIRE_H

/* What a record tells. */
enum kind {
	WRITE = 1, /* exact: the process wrote its wait_event_info */
	SLEPT = 2, /* blocking: it came back from a sleep inside a wait */
	BORN = 3,  /* the postmaster forked */
	DIED = 4,  /* a process of the server ended */
};

/* The part of a PgBackendStatus row that goes with a record: read in the context of the process that owns the row, hence never torn. */
struct row {
	s64 activity_start; /* PostgreSQL's microseconds */
	s64 state_start;
	s64 query;
	u32 state; /* as this version numbers it */
	u32 seen;  /* 0: there is no row, or it could not be read */
};

struct record {
	u64 seq;    /* position in its ring + 1, written last: the record is whole once this is there */
	u64 stamp;  /* taken after the place in the ring was: what records are ordered by */
	u64 at;     /* WRITE: the write; SLEPT: when it ran again; DIED: the end */
	u64 since;  /* WRITE, DIED: the write before; SLEPT: when it left the CPU */
	u64 woken;  /* SLEPT: when it was made runnable */
	u64 cpu;    /* on-CPU time since the process is tracked, up to `at` */
	u64 runq;   /* time runnable without a CPU since then, up to `at` */
	u64 cpu_out;/* SLEPT: `cpu` at `since` */
	u64 runq_out;/* SLEPT: `runq` at `since` */
	u64 frame;  /* SLEPT inside IO: tells system calls apart; 0 unknown */
	struct row row;
	u32 old;    /* WRITE, DIED: the event up to `at`; SLEPT: the event slept in */
	u32 now;    /* WRITE: the event from `at` on */
	u32 pid;
	u32 turn;   /* counts the records of a process from 1, lost ones included */
	enum kind kind;
	u16 track;
	u16 spare;
	u32 text;   /* place of the statement's text + 1; 0 none */
	u32 spare2;
};

/* The text of a statement for which the server shows no query id. Each CPU has its own places and takes them in turn: an old text is overwritten. */
#define TEXTS 2048 /* per CPU; a power of two */
#define TEXT_BYTES 1024
struct text {
	s64 activity_start; /* of the statement */
	u32 pid;            /* written last; 0 while it is written */
	u32 len;            /* the 0 at the end included */
	char sql[TEXT_BYTES];
};

/* A process that is followed. The first part is written by user space while the pid table does not yet lead here, the rest by BPF. */
struct track {
	u64 word;    /* address of its wait_event_info */
	u64 status;  /* address of its status row, 0 none (may be set later) */
	u64 since0;  /* when it was taken in */
	u32 pid;
	u32 event0;  /* what its wait_event_info was then */

	u32 version; /* odd while BPF changes what follows */
	u32 turn;
	u64 at;      /* last write (exact), or when it left or got the CPU (blocking) */
	u64 on;      /* on the CPU since; 0: not, or nothing is known yet */
	u64 cpu;     /* on-CPU time, up to `on` */
	u64 ran;     /* the kernel's account of its run time at the last switch */
	u64 runq;
	u64 out;     /* left the CPU at; 0 while on it, or nothing is known yet */
	u64 woken;
	u64 frame;
	u64 cpu_out;
	u64 runq_out;
	u32 event;   /* exact: last value written; blocking: slept in */
	u16 asleep;  /* out of the CPU to sleep, not for another to run */
	u16 known;   /* a switch of it was seen */
	u32 text;    /* blocking: that of the sleep it is in */
	u32 spare;
	s64 text_of; /* the statement whose text was told last */
	struct row row;
};

/* One CPU's ring: this, and `ring_size` records. */
struct ring {
	u64 head; /* next place to take; by BPF */
	u64 lost; /* records that found it full */
	u64 lost_first; /* of those since user space looked last */
	u64 lost_last;
	u64 texts; /* next place for a text */
	u64 pad0[3];
	u64 tail; /* next record to read; by user space */
	u64 lost_seen;
	u64 pad1[6];
};

/* Counters of one CPU. */
struct tally {
	u64 writes;
	u64 switches;
	u64 faults; /* user memory that could not be read */
	u64 odd;    /* switches that do not follow on the one before: one was not told, and was worked out */
	u64 pad[4];
};

/* Tracks by thread id. */
#define PIDS_PER_PAGE 4096
struct pid_page {
	u16 track[PIDS_PER_PAGE]; /* index of the track; 0 none */
};

#endif
