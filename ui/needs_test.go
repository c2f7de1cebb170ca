package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// TestNeeds: what needs a human comes first, the most urgent on top, with what to do and a link to the runbook; and the three
// figures count it.
func TestNeeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := stuckStore{newStore()}
		h := newPage(t, s, ui.Options{Rows: 2})
		c := client(t, s, "web-1")
		lock(t, c, "z/dead", rowlock.NoRenew(), rowlock.TTL(10*time.Minute))
		lock(t, c, "y/line")
		lock(t, c, "x/some")
		must(t, lock(t, c, "w/pinned").Release(t.Context()))
		must(t, lock(t, c, "v/kept", rowlock.MinHold(time.Hour)).Release(t.Context()))
		lock(t, c, "a/well")
		lock(t, c, "b/well")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		wait := func(key string, opts ...rowlock.Option) {
			other := client(t, s, "waiter")
			go func() { _, _ = other.Acquire(ctx, key, opts...); done <- struct{}{} }()
		}
		wait("y/line", rowlock.Fair())
		wait("y/line", rowlock.Fair())
		v := watch(t, h, "")
		time.Sleep(50 * time.Second)
		page := get(t, h, "/")
		contains(t, page, "<strong>5</strong> held", "<strong>2</strong> waiting", "<strong>0</strong> not renewed", "1 key is kept by MinHold. 1 key is pinned. 7 keys in all, with free ones.")
		if got := needed(page); got != "w/pinned" {
			t.Errorf("after 50 s %q need a human, want the pinned key: nobody has waited for a minute", got)
		}
		wait("x/some")
		time.Sleep(6 * time.Minute)
		page = get(t, h, "/")
		contains(t, page, "<strong>5</strong> held", "<strong>3</strong> waiting", `bad"><strong>1</strong> not renewed`)
		if got := needed(page); got != "z/dead w/pinned y/line x/some" {
			t.Errorf("these need a human: %q", got)
		}
		contains(t, get(t, h, "/key?k="+hexOf("x/some")), "at least 1 program, seen for <time")
		contains(t, page, `not renewed for <time`, "The key is free by itself in <span", "runbook.md#the-holder-is-dead", "runbook.md#a-transaction-in-the-way", "runbook.md#waits-grow")
		if got := needed(get(t, h, "/?prefix=y/")); got != "y/line" {
			t.Errorf("of those that begin with y/ these need a human: %q", got)
		}
		contains(t, get(t, h, "/?prefix=y/"), "<strong>1</strong> held", "<strong>2</strong> waiting", "<strong>0</strong> not renewed", "1 key in all, with free ones.")
		last := ""
		for _, u := range v.updates(t) {
			if u.Needs != nil {
				last = *u.Needs
			}
		}
		if got := needed(last); got != "z/dead w/pinned y/line x/some" {
			t.Errorf("the stream says these need a human: %q", got)
		}
		cancel()
		for range 3 {
			<-done
		}
		v.leave()
		<-v.gone
	})
}

// needed are the keys of the section that comes first.
func needed(page string) string {
	_, after, _ := strings.Cut(page, `<h2 id="needs-head">`)
	section, _, _ := strings.Cut(after, "</ul>")
	var keys []string
	for _, m := range regexp.MustCompile(`<a href="key\?k=\w+"><bdi>([^<]*)</bdi>`).FindAllStringSubmatch(section, -1) {
		keys = append(keys, m[1])
	}
	return strings.Join(keys, " ")
}

// stuckStore has a transaction in the way of the key w/pinned, and tells of x/some only that somebody waits.
type stuckStore struct{ *store }

func (s stuckStore) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	infos, err := s.store.List(ctx, prefix, after, limit)
	for i := range infos {
		infos[i].Pinned = infos[i].Key == "w/pinned"
		if infos[i].Key == "x/some" && infos[i].Waiting > 0 {
			infos[i].Waiting, infos[i].WaitingSince = 1, time.Time{}
		}
	}
	return infos, err
}

// TestAdvice: the page of a key has its token and says what to do, in each state; of a key that nobody has it names the last
// holder as such; the numbers of all keys are not on it.
func TestAdvice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{Runbook: "https://wiki.example.com/locks"})
		c := client(t, s, "web-1")
		held := lock(t, c, "held")
		lock(t, c, "dead", rowlock.NoRenew(), rowlock.TTL(time.Minute))
		must(t, lock(t, c, "kept", rowlock.MinHold(time.Hour)).Release(t.Context()))
		for key, want := range map[string]string{
			"held": "has not watched this holder for long enough", "dead": "has not watched this holder for long enough",
			"kept": "Nothing: it was released", "none": "Nothing: anybody can have it.",
		} {
			contains(t, get(t, h, "/key?k="+hexOf(key)), "<dt>What to do</dt><dd>", want)
		}
		v := watch(t, h, "")
		time.Sleep(40 * time.Second)
		page := get(t, h, "/key?k="+hexOf("held"))
		contains(t, page, "Nothing: its holder lives.", "<dt>Holder</dt>", "<dt>Held for</dt>", ", since <time", strconv.FormatInt(held.Token(), 10))
		lacks(t, page, "figure", "What needs you")
		contains(t, get(t, h, "/key?k="+hexOf("dead")), "Its holder has died, hangs, or asked for NoRenew.", `href="https://wiki.example.com/locks#the-holder-is-dead"`)
		contains(t, get(t, h, "/key?k="+hexOf("kept")), "<dt>Last holder</dt>", "<dt>Taken</dt>", " ago, at <time")
		v.leave()
		<-v.gone
	})
}

func hexOf(key string) string { return fmt.Sprintf("%x", key) }

// namedStore says where its locks are.
type namedStore struct{ *store }

func (namedStore) String() string { return "app @ db1:3306 (strategy version)" }

// TestWhere: every page says in its title and its head which database it is about.
func TestWhere(t *testing.T) {
	for want, h := range map[string]*ui.Handler{
		"app @ db1:3306 (strategy version)": newPage(t, namedStore{newStore()}, ui.Options{}),
		"staging &lt;1&gt;":                 newPage(t, namedStore{newStore()}, ui.Options{Database: "staging <1>"}),
	} {
		for _, target := range []string{"/", "/key?k=61", "/nothing"} {
			page := ask(h, "GET", target, nil).Body.String()
			contains(t, page, " · "+want+"</title>", `<span class="where">`+want+"</span>")
		}
	}
	lacks(t, get(t, newPage(t, newStore(), ui.Options{}), "/"), "where", "·")
}

// TestLinkUser: who came by a secret link is told that others can come by it too.
func TestLinkUser(t *testing.T) {
	h := ui.SecretLink("s3cret", newPage(t, newStore(), ui.Options{MayFree: ui.User}))
	cookie := ask(h, "GET", "/?secret=s3cret", nil).Result().Cookies()[0]
	page := ask(h, "GET", "/", nil, func(r *http.Request) { r.AddCookie(cookie) }).Body.String()
	contains(t, page, "You can free keys: anyone with this link can.")
}
