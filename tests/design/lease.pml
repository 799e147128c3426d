/* One job, two worker processes (the first with two slots), a reaper, a failover to a standby that lags.
 * Who may write an outcome, and does the job end?
 *
 * What the database does in one transaction is one atomic step here. A slot may stand still between any two of its steps,
 * and goes on whenever it likes; its run may die in any of its bodies, as a poisonous job makes it. A lease may be found
 * stale at any moment: safety must not rest on beats that come in time.
 *
 * Right as it stands. Each of these makes it wrong, and must be caught:
 *   NO_RUN       the outcome is fenced by the token alone: an earlier run in the same process is let in
 *   NO_TOKEN     the outcome is fenced by run_count alone: after a failover that forgot a claim, counts repeat
 *   SHARED       a claim that repeats a fence of its own process is worked, not handed back
 *   NO_RECHECK   the reaper takes away what it saw stale, without looking again at the row that it has locked
 *   NOT_COUNTED  a lost run spends no attempt: a poisonous job runs for ever
 *   ENDLESS      a body that beats has no maximum duration: it may run for ever
 */
#define MAX_ATTEMPTS 2
#define SLOTS 3

#ifdef NO_RUN
#define RUN_FITS true
#else
#define RUN_FITS (count == my_run)
#endif
#ifdef NO_TOKEN
#define TOKEN_FITS true
#else
#define TOKEN_FITS (token == me)
#endif
#ifdef SHARED
#define REPEATED false
#else
#define REPEATED (beside < SLOTS && held[beside] == count)
#endif
#ifdef NO_RECHECK
#define STILL_STALE true
#else
#define STILL_STALE stale
#endif

mtype = { queued, running, succeeded, failed };

mtype state = queued;
byte count = 0;                      /* run_count of the row */
byte token = 0;                      /* whose lease; 0: nobody's */
byte attempts = 0;
bool stale = false;                  /* no beat for longer than ttl, by the database's clock */
byte held[SLOTS];                    /* what each process believes to run, by slot; 0: nothing */

/* Ghosts: what really is, whatever the row says. */
byte lease = 0;                      /* which lease is the valid one; changes whenever one is given or taken away */
byte ends = 0;                       /* outcomes that were accepted, and ends by the reaper */

#define over (state == succeeded || state == failed)

proctype Slot(byte me; byte here; byte beside) {
  byte my_run, my_lease;
end_idle:
  if
  :: over -> goto finished
  :: atomic { state == queued ->                                        /* claim */
       count++;
       lease++;
       if
       :: REPEATED -> goto end_idle                                     /* back it goes, with its number spent */
       :: else ->
            state = running; token = me; stale = false;
            my_run = count; my_lease = lease; held[here] = count
       fi }
  fi;
body:
  if
  :: atomic {                                                           /* beat, fenced */
       if
       :: state == running && count == my_run && token == me -> stale = false
       :: else -> skip
       fi };
#ifdef ENDLESS
     goto body
#endif
  :: skip
  fi;
  if
  :: skip                                                               /* it dies here: the reaper has to come */
  :: atomic {                                                           /* settle, fenced */
       if
       :: state == running && RUN_FITS && TOKEN_FITS ->
            assert(my_lease == lease);
            state = succeeded; token = 0; ends++
       :: else -> skip                                                  /* lost: refused and counted */
       fi }
  fi;
  held[here] = 0;
  goto end_idle;
finished:
  skip
}

proctype Clock() {
end_clock:
  do
  :: over -> break
  :: atomic { state == running && !stale -> stale = true }
  od
}

proctype Reaper() {
  byte seen;
end_reaper:
  do
  :: over -> break
  :: atomic { state == running && stale -> seen = count };              /* what the scan saw */
     atomic {                                                           /* what the locked row says */
       if
       :: state == running && count == seen && STILL_STALE ->
            assert(stale);
            token = 0; stale = false; lease++;
#ifdef NOT_COUNTED
            state = queued; count--; lease = lease - 2                    /* numbers given back: a finite world */
#else
            attempts++;
            if
            :: attempts >= MAX_ATTEMPTS -> state = failed; ends++
            :: else -> state = queued
            fi
#endif
       :: else -> skip
       fi }
  od
}

/* The standby that is promoted has not heard of the last claim: the job is queued as before it. */
proctype Failover() {
  atomic {
    if
    :: state == running -> state = queued; count--; token = 0; stale = false; lease++
    :: over -> skip
    fi }
}

init {
  atomic { run Slot(1, 0, 1); run Slot(1, 1, 0); run Slot(2, 2, SLOTS); run Clock(); run Reaper(); run Failover() }
}

ltl safe { [] (ends <= 1 && attempts <= MAX_ATTEMPTS) }
ltl finishes { <> over }
