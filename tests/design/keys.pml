/* Two jobs with one unique key, each enqueued by two callers, worked, retried, cancelled, purged: is ever more than one of
 * them active, and does a job whose success still counts run again?
 *
 * Enqueue looks first and acts then, as the function does; the act is one atomic compare-and-set, and whoever finds that
 * somebody was faster looks again.
 *
 * Right as it stands. Each of these makes it wrong, and must be caught:
 *   LOOK_ONLY     whether the key is free is known from the look alone
 *   ANY_OUTCOME   an ended job is revived without regard to whether it is still the outcome that was seen
 *   FREED_EARLY   a run that will be tried again gives the key away
 *   KEPT          an end leaves the key behind: nobody gets it any more
 *   NO_WINDOW     retention removes what succeeded while its window is still open
 */
#define JOBS 2

mtype = { none, queued, running, succeeded, failed };

mtype state[JOBS] = none;
byte life[JOBS];                     /* run_count: tells one outcome of a job from the next */
byte holder = 0;                     /* the row of the key: job + 1; 0: nobody */
bool window[JOBS];                   /* the last success still counts */
byte wins[JOBS];                     /* ghost: successes within the window */
byte tries[JOBS];

#define active(j) (state[j] == queued || state[j] == running)

#ifdef LOOK_ONLY
#define KEY_FREE true
#else
#define KEY_FREE (holder == 0)
#endif
#ifdef ANY_OUTCOME
#define AS_SEEN (!active(j))
#else
#define AS_SEEN (state[j] == seen && life[j] == seen_life)
#endif

proctype Caller(byte j) {
  mtype seen;
  byte seen_life;
  bool taken;
look:
  atomic {
    seen = state[j];
    seen_life = life[j];
    taken = (holder != 0)
  };
  if
  :: seen == queued || seen == running -> skip                          /* exists */
  :: seen == succeeded && window[j] -> skip                             /* deduplicated; at worst the window has just ended */
  :: else ->
       if
       :: taken -> skip                                                 /* skipped, with the holder's id */
       :: else ->
            atomic {
              if
              :: AS_SEEN && KEY_FREE -> holder = j + 1; state[j] = queued; tries[j] = 0
              :: else -> goto look
              fi }
       fi
  fi
}

inline end(j, how) {
  state[j] = how;
#ifndef KEPT
  if
  :: holder == j + 1 -> holder = 0
  :: else -> skip
  fi
#endif
}

proctype Worker() {
  byte j;
end_worker:
  do
  :: atomic { state[0] == queued -> j = 0; state[0] = running; life[0]++ }; goto body
  :: atomic { state[1] == queued -> j = 1; state[1] = running; life[1]++ }; goto body
  od;
body:
  atomic {
    if
    :: state[j] == running -> end(j, succeeded); window[j] = true; wins[j]++; assert(wins[j] <= 1)
    :: state[j] == running -> end(j, failed)
    :: state[j] == running && tries[j] == 0 ->                          /* tried again, once */
         tries[j] = 1; state[j] = queued;
#ifdef FREED_EARLY
         holder = 0
#endif
    fi };
  goto end_worker
}

proctype Clock() {
end_clock:
  do
  :: atomic { window[0] -> window[0] = false; wins[0] = 0 }
  :: atomic { window[1] -> window[1] = false; wins[1] = 0 }
  od
}

#ifdef NO_WINDOW
#define MAY_GO true
#else
#define MAY_GO (!window[j])
#endif

proctype Retention(byte j) {
end_retention:
  do
  :: atomic { (state[j] == succeeded || state[j] == failed) && MAY_GO -> state[j] = none }
  od
}

init {
  atomic {
    run Caller(0); run Caller(0); run Caller(1); run Caller(1);
    run Worker(); run Clock(); run Retention(0); run Retention(1)
  }
}

ltl one { [] (!(active(0) && active(1))) }
ltl owned { [] ((active(0) -> holder == 1) && (active(1) -> holder == 2) && (holder == 1 -> active(0)) && (holder == 2 -> active(1))) }
