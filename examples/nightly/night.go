package main

import (
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// night notes what happens in a night, and prints it.
type night struct {
	Strategy mysqllock.Strategy
	books    books

	Takeovers, Already, Kills, Freezes int
	problems                           []string
	took                               time.Duration

	w        io.Writer
	begin    time.Time
	chunks   int           // of the night
	found    map[int]int   // how many chunks each pod found posted since it began
	fresh    map[int]bool  // pods that began and have posted nothing since
	worker   int           // the pod that took over last
	lately   time.Time     // when
	pace     time.Duration // between the last two chunks of one pod
	finished bool          // a pod has said so
	stirred  map[int]bool  // pods that stood still and have not had another tick since
}

func newNight(w io.Writer, strategy mysqllock.Strategy, chunks int) *night {
	n := &night{Strategy: strategy, w: w, begin: time.Now(), chunks: chunks, found: map[int]int{}, fresh: map[int]bool{}, stirred: map[int]bool{}}
	fmt.Fprintf(w, "\nThe night of strategy %v\n", strategy)
	return n
}

func (n *night) say(format string, args ...any) {
	fmt.Fprintf(n.w, "%6.1f s  %s\n", time.Since(n.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (n *night) problem(format string, args ...any) {
	n.problems = append(n.problems, fmt.Sprintf(format, args...))
	n.say("ALERT: "+format, args...)
}

// note takes what happens.
func (n *night) note(e fleet.Event[event]) {
	switch e.Kind {
	case fleet.Said:
		n.heard(e.Member, e.Message)
	case fleet.Killed:
		n.Kills++
		delete(n.stirred, e.Member)
		n.say("pod %d is killed (kill -9), another is started", e.Member)
	case fleet.Frozen:
		n.Freezes++
		n.stirred[e.Member] = true
		n.say("pod %d stands still for %v", e.Member, e.For)
	case fleet.Thawed:
		n.say("pod %d goes on", e.Member)
	case fleet.Failed:
		delete(n.stirred, e.Member)
		n.problem("pod %d: %v", e.Member, e.Err)
	}
}

// heard takes what a pod reports.
func (n *night) heard(pod int, e event) {
	switch e.Kind {
	case began:
		n.found[pod], n.fresh[pod] = 0, true
		return
	case already:
		n.Already++
		n.found[pod]++
		return
	case posted:
		now := time.Now()
		switch {
		case n.fresh[pod]:
			if n.worker != 0 && n.worker != pod {
				n.Takeovers++
			}
			n.say("pod %d works: %d chunks are posted already, it goes on with %d", pod, n.found[pod], e.Chunk)
			n.worker, n.fresh[pod] = pod, false
		case n.worker == pod:
			n.pace = now.Sub(n.lately)
		} // else it reports late what it did before it stood still
		n.lately = now
		return
	}
	stood := n.stirred[pod]
	delete(n.stirred, pod) // the rest ends a tick
	switch e.Kind {
	case done:
		if !n.finished {
			n.finished, n.took = true, time.Since(n.begin)
			n.say("pod %d is through with all %d chunks", pod, n.chunks)
		}
	case lost:
		n.say("pod %d finds that it lost the lock, and stops", pod)
	case alert:
		if stood { // in the middle of a call: the server may have given up, and the next tick tries again
			n.say("pod %d got an error when it went on: %s", pod, e.Problem)
			return
		}
		n.problem("pod %d: %s", pod, e.Problem)
	}
}

// over tells whether nobody has anything more to do: also not those that stood
// still, who may have a surprise.
func (n *night) over() bool { return n.finished && len(n.stirred) == 0 }
