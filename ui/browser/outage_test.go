package browser_test

import (
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/ui"
)

// TestOutage: a page that was opened while the database does not answer says nothing of keys until it does; while it does
// not again, what it said last stands still.
func TestOutage(t *testing.T) {
	testserver.Long(t)
	for name, target := range map[string]string{"list": "", "key": "key?k=" + id("report")} {
		t.Run(name, func(t *testing.T) {
			s := open(t, ui.Options{Refresh: refresh})
			s.lock("web-1", "report")
			s.store.fails.Store(true)
			s.visit(target)
			s.until(`document.getElementById("live").innerText === "Not live."`)
			s.until(`document.getElementById("problem").innerText.startsWith("The database does not answer")`)
			if eval[bool](s, `document.querySelector(".badge") !== null`) {
				t.Errorf("the page says something of a key:\n%s", eval[string](s, `document.body.innerText`))
			}
			s.store.fails.Store(false)
			s.until(`document.querySelector(".badge").innerText === "held"`)
			s.until(`document.getElementById("live").innerText.startsWith("Live, as of ")`)
			if eval[bool](s, `document.getElementById("problem").checkVisibility() || document.body.innerText.includes("not known")`) {
				t.Errorf("the database answers, but the page says:\n%s", eval[string](s, `document.body.innerText`))
			}
			s.store.fails.Store(true)
			s.until(`document.getElementById("live").innerText.startsWith("Not live: as of ")`)
			const held = `document.querySelector("[data-from]").innerText`
			before := eval[string](s, held)
			s.until(`(window.start ??= Date.now()) + 2500 < Date.now()`)
			if after := eval[string](s, held); after != before {
				t.Errorf("%q became %q while nothing was known", before, after)
			}
		})
	}
}
