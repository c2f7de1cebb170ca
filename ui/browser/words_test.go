package browser_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/ui"
)

// broken lists what is on two lines and should not be: words, durations, parts of keys. The name of a hold, in code, is as wide as a
// telephone.
const broken = `(() => {
  const lines = (range) => new Set([...range.getClientRects()].filter((r) => r.width > 1).map((r) => Math.round(r.top))).size;
  const out = [];
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("code")) continue;
    for (const word of node.data.matchAll(/[^\s]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (lines(range) > 1) out.push(word[0]);
    }
  }
  for (const e of document.querySelectorAll("time, [data-until]:not(meter)")) {
    const range = document.createRange();
    range.selectNodeContents(e);
    if (e.checkVisibility() && lines(range) > 1) out.push(e.textContent);
  }
  return out.join(", ");
})()`

// TestNoWordBroken: on wide and narrow screens no word, duration or part of a key is broken, and nothing is cut off.
func TestNoWordBroken(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh, Database: "production_shop @ database-1.internal.example.com:3306 (strategy version)"})
	for key, owner := range map[string]string{
		"import/customers": "billing-7c9f-prod", "invoices/2026-11": "reports-4", "shop:import/customers-of-the-north/2026-11-27": "web-production-eu-west-1-7c9f",
		"nightly:interest": "pod-2",
	} {
		s.lock(owner, key, rowlock.TTL(9*time.Minute+50*time.Second))
	}
	must(t, s.lock("mailer-2", "mail:digest", rowlock.MinHold(10*time.Minute)).Release(t.Context()))
	for _, width := range []int64{1280, 1024, 810, 380, 320} {
		s.do(chromedp.EmulateViewport(width, 800))
		for _, target := range []string{"", "?all=1", "key?k=" + id("shop:import/customers-of-the-north/2026-11-27"), "key?k=" + id("mail:digest")} {
			s.visit(target)
			s.until(`document.getElementById("live").innerText.startsWith("Live")`)
			if words := eval[string](s, broken); words != "" {
				t.Errorf("%d pixels, %q: broken: %s", width, target, strings.ReplaceAll(words, "\n", " "))
			}
			if wide := eval[int64](s, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%d pixels, %q: the page is %d wide", width, target, wide)
			}
		}
	}
}
