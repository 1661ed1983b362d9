/*
Package periodic submits jobs at set times: each night, on the first of the month, every
90 seconds. Every instance of a program has the same schedules, and none is the leader.
The first instance at a tick submits its job, and no tick has two jobs.

# Ticks

A [Schedule] has a cron expression or @every with a duration. An expression has 5 fields:
minute, hour, day of the month, month, day of the week. With 6, seconds come first; with
7, years come last. Fields have *, numbers, lists, ranges, steps and English names; L, 15W,
5L and FRI#2 are days. If both day fields are restricted, one has to match, or both if one
begins with *. @every counts from 1970, so all instances have the same ticks.

An expression for every hour follows elapsed time. All others follow the wall clock: a
tick in a gap is at its end, and a time that exists twice is one tick, the first.

# Missed ticks

A tick that is not submitted within Schedule.Grace is missed. Schedule.Missed decides
about it. A new schedule, or a new definition of one, has no ticks from before it was
first known. While two definitions run, both submit their ticks; a tick of both is one
job. A tick before the schedule's last one is skipped.
*/
package periodic
