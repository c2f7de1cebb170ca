package main

import "testing"

// TestReceiver: it takes each number once and in order, and nothing with an old
// token.
func TestReceiver(t *testing.T) {
	for name, c := range map[string]struct {
		messages                  []message
		taken, again, stale, gaps int
	}{
		"in order":            {[]message{{1, 10, 7}, {2, 10, 7}, {3, 10, 9}}, 3, 0, 0, 0},
		"a takeover repeats":  {[]message{{1, 10, 7}, {2, 10, 7}, {1, 10, 9}, {2, 10, 9}, {3, 10, 9}}, 3, 2, 0, 0},
		"a relay wakes up":    {[]message{{1, 10, 7}, {2, 10, 9}, {2, 10, 7}, {3, 10, 7}}, 2, 0, 2, 0},
		"one is passed over":  {[]message{{1, 10, 7}, {3, 10, 7}}, 2, 0, 0, 1},
		"the first is missed": {[]message{{2, 10, 7}}, 1, 0, 0, 1},
	} {
		r := &receiver{}
		for _, m := range c.messages {
			if r.take(m) == (m.Token < r.token) {
				t.Errorf("%s: message %d with token %d: wrong answer", name, m.Number, m.Token)
			}
		}
		if r.taken != c.taken || r.again != c.again || r.stale != c.stale || r.gaps != c.gaps || r.cents != int64(10*c.taken) {
			t.Errorf("%s: %+v, want %+v", name, r, c)
		}
	}
}

// TestWrong: the verdict sees every way to tell wrongly.
func TestWrong(t *testing.T) {
	good, told := books{Orders: 3, Messages: 3, Cents: 30, Sent: 3}, func() *receiver { return &receiver{taken: 3, cents: 30} }
	if errs := wrong(good, told()); errs != nil {
		t.Errorf("nothing is wrong: %v", errs)
	}
	for name, spoil := range map[string]func(*books, *receiver){
		"an order without a message": func(b *books, _ *receiver) { b.Orders++ },
		"not all noted":              func(b *books, _ *receiver) { b.Sent-- },
		"a step back":                func(b *books, _ *receiver) { b.Breaks++ },
		"a gap":                      func(_ *books, r *receiver) { r.gaps++ },
		"one not taken":              func(_ *books, r *receiver) { r.taken-- },
		"one taken twice":            func(_ *books, r *receiver) { r.taken++ },
		"other sums":                 func(_ *books, r *receiver) { r.cents++ },
	} {
		b, r := good, told()
		if spoil(&b, r); wrong(b, r) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
