package enginetest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// saidStore says of every key what it is told to.
type saidStore struct {
	*faultStore
	info atomic.Pointer[driver.Info]
}

func (s *saidStore) say(i driver.Info) {
	i.Key = "k"
	s.info.Store(&i)
}

func (s *saidStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	return []driver.Info{*s.info.Load()}, nil
}

// TestP24_ObserveATermWithASmallerToken: a later term whose row has a smaller token than the one before is told, by a larger
// number; so is its end, and what comes after. An answer that is behind is not.
func TestP24_ObserveATermWithASmallerToken(t *testing.T) {
	const token, ms = 1 << 60, 1000 * driver.TokenRange
	held := func(owner string, id byte, token int64) driver.Info {
		return driver.Info{Held: true, Owner: owner, Hold: driver.HoldID{id}, Token: token, Left: time.Hour, Since: time.Unix(int64(id), 0)}
	}
	free := func(owner string, token int64) driver.Info { return driver.Info{Owner: owner, Token: token} }
	for name, c := range map[string]struct {
		says []driver.Info // three seconds each
		want string
	}{
		"a millisecond below":            {[]driver.Info{held("a", 1, token), {}, held("b", 2, token-ms)}, "a - b"},
		"right after the other":          {[]driver.Info{held("a", 1, token), held("b", 2, token-ms)}, "a b"},
		"the same token":                 {[]driver.Info{held("a", 1, token), held("b", 2, token)}, "a b"},
		"of the same owner":              {[]driver.Info{held("a", 1, token), {}, held("a", 2, token-ms)}, "a - a"},
		"its end":                        {[]driver.Info{held("a", 1, token), held("b", 2, token-ms), free("b", token-ms)}, "a b -"},
		"its end, with its row":          {[]driver.Info{held("a", 1, token), held("b", 2, token-ms), {}}, "a b -"},
		"the next with a larger":         {[]driver.Info{held("a", 1, token), held("b", 2, token-ms), held("c", 3, token+ms)}, "a b c"},
		"the next with a smaller":        {[]driver.Info{held("a", 1, token), held("b", 2, token-ms), held("c", 3, token-2*ms)}, "a b c"},
		"it came and went unseen":        {[]driver.Info{held("a", 1, token), free("b", token-ms)}, "a -"},
		"a clock that was set back":      {[]driver.Info{held("a", 1, token), {}, held("b", 2, token-1e6*ms)}, "a - b"},
		"readers, a clock set back":      {[]driver.Info{held("a", 1, token), {}, {Held: true, Readers: 2, Token: token - ms, Left: time.Hour}}, "a - "},
		"an answer that is behind":       {[]driver.Info{held("a", 1, token), held("b", 2, token+ms), held("a", 1, token), held("b", 2, token+ms)}, "a b"},
		"behind, when nobody had it":     {[]driver.Info{held("a", 1, token), free("a", token), held("b", 2, token+ms), free("a", token), held("b", 2, token+ms)}, "a - b"},
		"behind, before a smaller token": {[]driver.Info{held("a", 1, token), held("b", 2, token-ms), held("a", 1, token), held("b", 2, token-ms)}, "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &saidStore{faultStore: newFaultStore()}
				s.say(c.says[0])
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				watch := newFollow(ctx, newClient(t, s), "k")
				for _, i := range c.says {
					s.say(i)
					time.Sleep(3 * time.Second)
				}
				if got := watch.text(); got != c.want {
					t.Errorf("observed %q, want %q", got, c.want)
				}
				watch.rising(t)
				if n := len(watch.seen); c.says[len(c.says)-1].Held && n > 1 && watch.seen[n-1].Token <= watch.seen[0].Token {
					t.Errorf("P24: term %d after %d", watch.seen[n-1].Token, watch.seen[0].Token)
				}
			})
		})
	}
}
