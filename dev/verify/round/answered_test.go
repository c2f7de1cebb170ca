package round

import (
	"testing"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// TestAnswered: only what a server must have answered is counted.
func TestAnswered(t *testing.T) {
	const base = 7 * tokensOfAGrant
	event := func(kind history.Kind, result history.Result) history.Event {
		return history.Event{Client: "p1", Space: "version", Key: "k", Kind: kind, Result: result, End: 1}
	}
	acquire := func(token int64, mode history.Mode) history.Event {
		e := event(history.Acquire, history.OK)
		e.Token, e.Mode = token, mode
		return e
	}
	tried := event(history.Acquire, history.Refused)
	tried.Try = true
	noReply := event(history.Write, history.OK)
	noReply.End = 0
	for name, c := range map[string]struct {
		events []history.Event
		want   int
	}{
		"a cycle":                    {[]history.Event{acquire(base, ""), event(history.Renew, history.OK), event(history.Release, history.OK)}, 3},
		"a lease that is handed off": {[]history.Event{acquire(base, ""), event(history.Release, history.OK), acquire(base+1, ""), event(history.Release, history.OK)}, 2},
		"readers of one hold":        {[]history.Event{acquire(base, history.Shared), acquire(base, history.Shared), event(history.Release, history.OK), event(history.Release, history.OK)}, 2},
		"refused":                    {[]history.Event{tried}, 1},
		"given up behind a holder":   {[]history.Event{event(history.Acquire, history.Refused)}, 0},
		"failed, unknown, no reply":  {[]history.Event{event(history.Acquire, history.Failed), event(history.Commit, history.Unknown), noReply}, 0},
		"a loss that a client knows": {[]history.Event{event(history.Renew, history.Lost)}, 0},
		"transactions":               {[]history.Event{event(history.Commit, history.OK), event(history.Once, history.Ran), event(history.Locked, history.Conflict), event(history.Write, history.Stale)}, 4},
		"looks":                      {[]history.Event{event(history.Look, history.OK), event(history.Pulse, history.OK)}, 0},
	} {
		if got := answered(c.events)["version"]; got != c.want {
			t.Errorf("%s: %d answered, want %d", name, got, c.want)
		}
	}
}
