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
	*fleet.Log
	Strategy mysqllock.Strategy
	books    books

	Takeovers, Already int
	took               time.Duration

	chunks   int           // of the night
	found    map[int]int   // how many chunks each pod found posted since it began
	fresh    map[int]bool  // pods that began and have posted nothing since
	failed   map[int]bool  // pods whose last tick ended with an error
	worker   int           // the pod that took over last
	lately   time.Time     // when
	pace     time.Duration // between the last two chunks of one pod
	finished bool          // a pod has said so
}

func newNight(w io.Writer, strategy mysqllock.Strategy, chunks int) *night {
	fmt.Fprintf(w, "\nThe night of strategy %v\n", strategy)
	return &night{Log: fleet.NewLog(w, rolePod), Strategy: strategy, chunks: chunks, found: map[int]int{}, fresh: map[int]bool{}, failed: map[int]bool{}}
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
			n.Say("pod %d works: %d chunks are posted already, it goes on with %d", pod, n.found[pod], e.Chunk)
			n.worker, n.fresh[pod] = pod, false
		case n.worker == pod:
			n.pace = now.Sub(n.lately)
		} // else it reports late what it did before it stood still
		n.lately = now
		return
	}
	stood := n.Stirred(pod)
	n.Settled(pod) // the rest ends a tick
	again := n.failed[pod]
	n.failed[pod] = e.Kind == alert
	switch e.Kind {
	case done:
		if !n.finished {
			n.finished, n.took = true, time.Since(n.Begin)
			n.Say("pod %d is through with all %d chunks", pod, n.chunks)
		}
	case lost:
		n.Say("pod %d finds that it lost the lock, and stops", pod)
	case alert:
		if stood { // in the middle of a call: the server may have given up, and the next tick tries again
			n.Say("pod %d got an error when it went on: %s", pod, e.Problem)
			return
		}
		if !again { // a server that is slow for a moment: the next tick tries again
			n.Say("pod %d got an error, and tries again: %s", pod, e.Problem)
			return
		}
		n.Alert("pod %d: %s", pod, e.Problem)
	}
}

// over reports whether nobody has anything more to do: also not those that stood
// still, who may have a surprise.
func (n *night) over() bool { return n.finished && n.Calm() }
