// P9: keys that differ in one byte are different locks, and come back from the
// server byte for byte; a bad key is an error before anything is sent.

package locktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var keys = []testCase{
	{name: "P9_EveryByteCounts", run: everyByte},
	{name: "P9_KeysInOneBatch", run: keysInOneBatch},
	{name: "P9_BadKeys", engine: true, run: badKeys},
	{name: "P9_Owners", run: owners},
}

// oddKeys are keys that some database, collation or quoting takes for each other.
func (e *env) oddKeys(t testing.TB) []string {
	prefix := e.key(t) + ":"
	odd := []string{
		"key", "Key", "KEY", "kéy", "ke\u0301y", "kèy", // case, accent, normal form
		"key ", "key  ", " key", "key\t", "key\n", "key\r\n", // white space
		"key\x00", "key\x00\x00", "\x00key", "k\x00ey", "key\x01", // NUL and other control bytes
		"ss", "ß", "SS", "ſs", "ı", "i", "I", "İ", "K", "K", "ﬁ", "fi", // what case folding merges
		"straße", "strasse", "Å", "A\u030a", "Å", // and normalisation
		"key\u200b", "key\u00ad", "key\ufeff", "\ufeffkey", // nothing to see
		"日本", "日本語", "🔒", "🔒\ufe0f", "👩‍🚀",
		"\xff", "\xfe", "\xff\xfe", "\xc3", "\xc3(", "\xed\xa0\x80", "key\xff", // not UTF-8
		"%", "_", "%%", "k_y", "k%", "k*y", ".*", "^key$", "[key]", "(key", // patterns
		"'", "''", `"`, "`", `\`, `\\`, `\'`, `\0`, "'; DROP TABLE x; --", "/*", "#", "--", "?", ":1", // quoting
		"$", "$key", "$$NOW", "$set", ".", "..", "a.b", "a.$", "{}", `{"$gt":""}`, // documents
		"0", "00", "+0", "-0", "0x0", "1e0", "1", "01", "1.0", "NULL", "null", "true", // numbers
	}
	for i, k := range odd {
		odd[i] = prefix + k
	}
	// Without the prefix, for what matters at the beginning.
	for _, k := range []string{"$", "$$", ".", "%", "\x00", " ", "'", "\xff", "_", "-"} {
		odd = append(odd, k+prefix)
	}
	long := prefix + strings.Repeat("x", driver.MaxKey-len(prefix)-1)
	odd = append(odd, long, long+"y", long+"z", long+" ", long+"\x00", prefix+strings.Repeat("\xff", driver.MaxKey-len(prefix)))
	slices.Sort(odd)
	return slices.Compact(odd)
}

func everyByte(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	odd := e.oddKeys(t)
	odd = thin(odd, e.hold(len(odd)))
	leases := make(map[string]*rowlock.Lease)
	for _, key := range odd {
		ctx, cancel := context.WithTimeout(context.Background(), patience(t))
		lease, err := a.Acquire(ctx, key)
		cancel()
		if errors.Is(err, rowlock.ErrHeld) {
			t.Fatalf("P9: %q is taken for another key: %v", key, err)
		}
		if err != nil {
			t.Fatalf("acquire %q: %v", key, err)
		}
		leases[key] = lease
	}
	check := func(held func(i int) bool) {
		t.Helper()
		for i, key := range odd {
			info, err := b.Inspect(soon(t), key)
			if err != nil || info.Key != key || info.Held != held(i) {
				t.Errorf("P9: inspect %q: %+v, %v, want held %v", key, info, err, held(i))
			}
			if held(i) && info.Token > leases[key].Token() {
				t.Errorf("P9: inspect %q: token %d is another key's, want %d", key, info.Token, leases[key].Token())
			}
		}
	}
	check(func(int) bool { return true })
	for _, key := range odd {
		refused(t, b, key)
	}
	if e.lister {
		listed(t, s.(driver.Lister), odd)
	}
	for i, key := range odd {
		if i%2 == 0 {
			release1(t, leases[key])
		}
	}
	check(func(i int) bool { return i%2 == 1 })
	for i, key := range odd {
		if i%2 == 1 {
			if err := renew1(t, leases[key]); err != nil {
				t.Errorf("P9: renew %q: %v", key, err)
			}
			release1(t, leases[key])
		}
	}
	check(func(int) bool { return false })
}

// thin takes n of the keys, spread over all.
func thin(keys []string, n int) []string {
	var some []string
	for i := range n {
		some = append(some, keys[i*len(keys)/n])
	}
	return some
}

// listed checks that List gives each key under itself as the prefix, and those
// with a common prefix in the order of their bytes.
func listed(t testing.TB, l driver.Lister, odd []string) {
	t.Helper()
	for _, key := range odd {
		infos, err := l.List(soon(t), key, "", 1)
		if err != nil || len(infos) != 1 || infos[0].Key != key || !infos[0].Held {
			t.Errorf("P9: list with prefix %q: %+v, %v", key, infos, err)
		}
	}
	prefix := odd[len(odd)/2][:10]
	var want, got []string
	for _, key := range odd {
		if strings.HasPrefix(key, prefix) {
			want = append(want, key)
		}
	}
	infos, err := l.List(soon(t), prefix, "", 1000)
	if err != nil {
		t.Errorf("P9: list: %v", err)
	}
	for _, i := range infos {
		if slices.Contains(odd, i.Key) { // other cases have keys with this prefix too
			got = append(got, i.Key)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("P9: list with prefix %q:\n got  %q\n want %q", prefix, got, want)
	}
}

// keysInOneBatch sends the keys together: no answer may go to another's place.
func keysInOneBatch(t *testing.T, e *env) {
	s := e.Open(t)
	odd := e.oddKeys(t)
	odd = thin(odd, min(e.hold(len(odd)), e.limits.Batch))
	slices.Reverse(odd)
	holds := e.grantAll(t, s, odd, longTTL)
	infos, err := s.Inspect(soon(t), odd)
	if err != nil || len(infos) != len(odd) {
		t.Fatalf("inspect: %d answers for %d keys, %v", len(infos), len(odd), err)
	}
	for i, info := range infos {
		if info.Key != odd[i] || !info.Held || info.Token > holds[i].Token {
			t.Errorf("P9: inspect %q in a batch: %+v, want token %d", odd[i], info, holds[i].Token)
		}
	}
	answerAll(t, s.Renew, holds, driver.Alive)
	answerAll(t, s.Release, holds, driver.Released)
}

func badKeys(t *testing.T, e *env) {
	c, f := e.faulty(t, rowlock.Options{})
	ctx := context.Background()
	for _, key := range []string{"", strings.Repeat("x", driver.MaxKey+1), strings.Repeat("é", driver.MaxKey)} {
		_, err1 := c.Acquire(ctx, key)
		_, err2 := c.TryAcquire(ctx, key)
		_, err3 := c.Inspect(ctx, key)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("P9: a key of %d bytes: %v, want ErrInvalid", len(key), err)
			}
		}
	}
	for _, op := range []Op{OpAcquire, OpRenew, OpRelease, OpInspect} {
		if n := f.Calls(op); n > 0 {
			t.Errorf("P9: %d calls of %s were made for bad keys", n, op)
		}
	}
}

// owners come back as they went in.
func owners(t *testing.T, e *env) {
	s := e.Open(t)
	for _, owner := range []string{"", "host:1", "$owner", "$$NOW", "'\"`\\ %_", "日本 🔒", "a.b", strings.Repeat("x", 255)} {
		q := driver.Request{Key: e.key(t), ID: newID(), Owner: owner, TTL: longTTL}
		var r driver.Result
		until(t, "the key is granted", func() bool {
			results, err := s.Acquire(soon(t), []driver.Request{q}) // not grant, which sets an owner
			if err != nil {
				t.Logf("acquire as owner %q: %v", owner, err)
				return driver.IsLasting(err)
			}
			r = results[0]
			return r.Status == driver.Granted
		})
		if r.Status != driver.Granted {
			t.Fatalf("acquire as owner %q: %v", owner, r.Status)
		}
		if i := inspect(t, s, q.Key); i.Owner != owner {
			t.Errorf("owner %q came back as %q", owner, i.Owner)
		}
		answer(t, s.Release, holdOf(q, r), driver.Released)
	}
}
