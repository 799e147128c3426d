/* Two processes that may lead, and a schedule: is each tick one job, and none left out?
 *
 * Leadership is a leased row with an epoch. A leader may stand still at any point, while another takes over, and go on
 * as if it still led; one of the two may die for good. Firing a tick is one transaction.
 *
 * Right as it stands. Each of these makes it wrong, and must be caught:
 *   TRUSTING   the leader fires without asking whether the tick has its job: being the leader is no proof
 *   APART      the schedule moves on in one transaction, the job is made in the next
 *   FROM_NOW   a new leader begins with the newest tick, not where the schedule stands
 *   FOR_EVER   the lease of a dead leader does not end
 */
#define TICKS 2

byte owner = 0;
byte epoch = 0;
bool expired = false;                /* by the database's clock */
byte cursor = 0;                     /* the schedule's next tick */
byte made[TICKS];                    /* jobs of each tick */
byte dead = 0;
byte due = 0;                        /* ticks whose time has come */

#ifdef TRUSTING
#define UNMADE(t) true
#else
#define UNMADE(t) (made[t] == 0)
#endif
#define done (made[0] > 0 && made[1] > 0)

proctype Candidate(byte me) {
  byte my_epoch, t;
end_follow:
  if
  :: done -> goto finished
  :: atomic { owner == 0 || expired -> owner = me; epoch++; expired = false; my_epoch = epoch }
  fi;
#ifdef FROM_NOW
  atomic {
    if
    :: due > 0 && cursor < due - 1 -> cursor = due - 1
    :: else -> skip
    fi };
#endif
lead:
  if
  :: done -> goto finished
  :: atomic { dead == 0 -> dead = me }; goto finished                   /* it dies, between any two rounds */
  :: !done -> skip
  fi;
  atomic {                                                              /* renewed, or it hears that another leads */
    if
    :: owner == me && epoch == my_epoch -> expired = false
    :: else -> goto end_follow
    fi };
  if
  :: atomic { cursor < due -> t = cursor }                              /* what it saw; it may stand still here */
  :: else -> goto lead
  fi;
#ifdef APART
  atomic {
    if
    :: cursor == t -> cursor++
    :: else -> skip
    fi };
  if
  :: atomic { dead == 0 -> dead = me }; goto finished
  :: skip
  fi;
  atomic {
    if
    :: UNMADE(t) -> made[t]++
    :: else -> skip
    fi };
#else
  atomic {
    if
    :: UNMADE(t) -> made[t]++
    :: else -> skip
    fi;
    if
    :: cursor == t -> cursor++
    :: else -> skip
    fi };
#endif
  goto lead;
finished:
  skip
}

/* A living leader is late a few times only: if it always were, nobody would ever lead for long enough. */
proctype Clock() {
  byte late = 0;
end_clock:
  do
  :: done -> break
  :: atomic { due < TICKS -> due++ }
  :: atomic { owner != 0 && !expired && dead != owner && late < 2 -> late++; expired = true }
#ifndef FOR_EVER
  :: atomic { owner != 0 && !expired && dead == owner -> expired = true }
#endif
  od
}

init {
  atomic { run Candidate(1); run Candidate(2); run Clock() }
}

ltl once { [] (made[0] <= 1 && made[1] <= 1) }
ltl all_of_them { <> done }
