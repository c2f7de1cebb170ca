package browser_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/ui"
)

const refresh = 100 * time.Millisecond

func id(key string) string { return fmt.Sprintf("%x", key) }

// row is an expression: the row of a key.
func row(key string) string {
	return fmt.Sprintf(`document.querySelector('tr[data-id="%s"]')`, id(key))
}

// TestLive: keys come, change and go without a reload, in their order; times count; the focus stays where it is.
func TestLive(t *testing.T) {
	s := open(t, ui.Options{Refresh: refresh})
	s.lock("web-1", "b")
	s.visit("")
	s.until(row("b") + " !== null")
	s.do(chromedp.Evaluate[chromedp.Void](`window.same = true; ` + row("b") + `.querySelector("a").focus()`))
	a := s.lock("web-2", "a")
	s.lock("web-3", "c")
	s.until(row("c") + " !== null && " + row("a") + " !== null")
	if order := eval[string](s, `[...document.querySelectorAll("tbody th")].map(e => e.innerText).join(" ")`); order != "a b c" {
		t.Errorf("the keys are in the order %s", order)
	}
	s.until(`document.querySelector("#summary strong").innerText === "3"`)
	s.until(`document.getElementById("live").innerText.startsWith("Live, as of ")`)
	must(t, a.Release(t.Context()))
	s.until(row("a") + " === null")
	s.until(`parseInt(` + row("b") + `.querySelector("[data-from]").innerText) >= 2`)
	s.until(row("b") + `.innerText.includes("renewed ")`)
	s.until(row("b") + `.querySelector("meter").value < 30`)
	if !eval[bool](s, `window.same && document.activeElement === `+row("b")+`.querySelector("a")`) {
		t.Error("the focus was lost, or the page was loaded again")
	}
	_, err := s.store.ForceRelease(t.Context(), "c")
	must(t, err)
	s.until(`document.getElementById("losses").innerText.includes("the lease of web-3")`)
	s.until(row("c") + " === null")
}

// TestPause: a user who pauses is left alone until going on.
func TestPause(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh})
	s.visit("")
	s.until(`document.getElementById("live").innerText.startsWith("Live")`)
	s.do(chromedp.Click(chromedp.ID("pause")))
	s.until(`document.getElementById("live").innerText.startsWith("Paused")`)
	s.lock("web-1", "b")
	time.Sleep(10 * refresh)
	if !eval[bool](s, row("b")+" === null") {
		t.Error("a key came while the page was paused")
	}
	s.do(chromedp.Click(chromedp.ID("pause")))
	s.until(row("b") + " !== null")
}

// TestKeyPage: the page of a key follows it from holder to holder.
func TestKeyPage(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh})
	s.visit("key?k=" + id("report"))
	s.until(`document.querySelector("dl").innerText.includes("free")`)
	lease := s.lock("web-1", "report")
	s.until(fmt.Sprintf(`document.querySelector("dl").innerText.includes("web-1") && document.querySelector("dl").innerText.includes("%d")`, lease.Token()))
	must(t, lease.Release(t.Context()))
	s.until(`!document.querySelector("dl").innerText.includes("web-1")`)
}

// TestFree: a user ends a hold, from the list to the result, by the keyboard alone.
func TestFree(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh, MayFree: func(*http.Request) (string, bool) { return "ada", true }})
	lease := s.lock("web-1", "report")
	s.visit("")
	s.until(row("report") + " !== null")
	press := func(keys string) { s.t.Helper(); s.do(chromedp.KeyEvent(keys)) }
	focus := func() string {
		return eval[string](s, `document.activeElement.innerText || document.activeElement.name`)
	}
	press(kb.Tab)
	if got := focus(); got != "To the locks" {
		t.Errorf("the first thing that Tab reaches is %q, want the link that skips the head", got)
	}
	for range 20 {
		if focus() == "report" {
			break
		}
		press(kb.Tab)
	}
	if !eval[bool](s, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("it cannot be seen where the focus is")
	}
	press(kb.Enter)
	s.until(`document.title.startsWith("report")`)
	for range 20 {
		if strings.HasPrefix(focus(), "Free this key") {
			break
		}
		press(kb.Tab)
	}
	press(kb.Enter)
	s.until(`document.title.startsWith("Free report")`)
	for range 20 {
		if focus() == "typed" {
			break
		}
		press(kb.Tab)
	}
	press("report")
	press(kb.Tab)
	press(" ") // the box that says: although its holder may live
	press(kb.Enter)
	s.until(`document.body.innerText.includes("was ended from this page by ada")`)
	s.until(fmt.Sprintf(`document.querySelector(".note").innerText === "The hold with token %d was ended."`, lease.Token()))
	lost := lease.Renew(t.Context())
	if !errors.Is(lost, rowlock.ErrLost) {
		t.Errorf("the holder's next renewal: %v, want ErrLost", lost)
	}
}

// nasty are keys that would do something if they were more than text.
var nasty = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</template><script>alert(2)</script>", "\xff\x00", "\u202egpj.exe", "שלום", "javascript:alert(3)",
	"`${alert(4)}`", strings.Repeat("k", 255), strings.Repeat("<b>", 80), "😀 x",
}

// TestNastyKeys: keys and owners are shown as text, also those that come by the stream.
func TestNastyKeys(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh})
	s.visit("")
	s.until(`document.getElementById("live").innerText.startsWith("Live")`)
	for _, key := range nasty {
		s.lock("<img src=x onerror=alert(5)>", key)
	}
	s.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(nasty)))
	s.do(chromedp.Reload())
	s.until(`document.getElementById("live").innerText.startsWith("Live")`)
	if n := eval[int](s, `document.querySelectorAll("main img, main script, main b").length`); n > 0 {
		t.Errorf("%d elements were made of keys", n)
	}
	for _, key := range nasty {
		s.visit("key?k=" + id(key))
		s.until(`document.querySelector("dl").innerText.includes("<img src=x")`)
	}
}

// contrast is the smallest contrast of a text with its background, and where.
const contrast = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
    return [255, 255, 255, 255];
  };
  let worst = {ratio: 99, text: ""};
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = {ratio, text: e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 40)};
  }
  return worst;
})()`

// TestSchemes: the page is light or dark as the user wants it, and its text can be read in both.
func TestSchemes(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh, MayFree: func(*http.Request) (string, bool) { return "", true }})
	s.lock("web-1", "report")
	s.lock("web-2", "silent", rowlock.NoRenew())
	must(t, s.lock("web-3", "kept", rowlock.MinHold(time.Hour)).Release(t.Context()))
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		s.scheme(scheme)
		for _, target := range []string{"?all=1", "key?k=" + id("report"), "free?k=" + id("report")} {
			s.visit(target)
			worst := eval[struct {
				Ratio float64
				Text  string
			}](s, contrast)
			if worst.Ratio < 4.5 {
				t.Errorf("%s, %s: a contrast of %.2f, want 4.5: %s", scheme, target, worst.Ratio, worst.Text)
			}
		}
		grounds[scheme] = eval[string](s, `getComputedStyle(document.body).backgroundColor`)
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark are the same: %v", grounds)
	}
}

// TestNarrow: on a screen of 320 pixels nothing is cut off, however long the keys are.
func TestNarrow(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh, MayFree: func(*http.Request) (string, bool) { return "ada", true }})
	for _, key := range nasty {
		s.lock(strings.Repeat("owner", 40), key)
	}
	s.do(chromedp.EmulateViewport(320, 640))
	for _, target := range []string{"", "?all=1", "key?k=" + id(nasty[8]), "free?k=" + id(nasty[8])} {
		s.visit(target)
		if wide := eval[int](s, "document.documentElement.scrollWidth"); wide > 320 {
			t.Errorf("%q is %d pixels wide on a screen of 320", target, wide)
		}
	}
}

// TestScreenReader: what the browser tells a screen reader: a table with a name, heads of columns and rows, also on a
// narrow screen; names of all controls; one line that is read out when it changes.
func TestScreenReader(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh})
	s.lock("web-1", "report")
	for _, width := range []int64{1200, 320} {
		s.do(chromedp.EmulateViewport(width, 800))
		s.visit("")
		s.until(row("report") + " !== null")
		tree, err := chromedp.Call(s.tab, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		must(t, err)
		roles := map[string][]string{}
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			name := ""
			if n.Name != nil {
				name = strings.Trim(string(n.Name.Value), `" `)
			}
			role := strings.Trim(string(n.Role.Value), `"`)
			roles[role] = append(roles[role], name)
		}
		want := func(role string, names ...string) {
			t.Helper()
			for _, name := range names {
				found := false
				for _, got := range roles[role] {
					found = found || strings.HasPrefix(got, name)
				}
				if !found {
					t.Errorf("%d pixels: no %s %q; there are %q", width, role, name, roles[role])
				}
			}
		}
		want("table", "Keys that are taken")
		want("columnheader", "Key", "State", "Holder", "Held for", "Time left", "Waiting")
		want("rowheader", "report")
		want("button", "Pause", "Show")
		want("textbox", "Keys that begin with")
		want("checkbox", "free keys too")
		want("heading", "Keys", "Lost lately")
		want("link", "To the locks", "report")
		for _, role := range []string{"button", "link", "textbox", "checkbox"} {
			for _, name := range roles[role] {
				if name == "" {
					t.Errorf("%d pixels: a %s without a name", width, role)
				}
			}
		}
	}
	if live := eval[string](s, `[...document.querySelectorAll("[aria-live], [role=alert]")].map(e => e.id).join(" ")`); live != "summary problem" {
		t.Errorf("read out when they change: %s", live)
	}
}

// TestWithoutScript: the page is whole, and says how it reloads.
func TestWithoutScript(t *testing.T) {
	testserver.Long(t)
	s := open(t, ui.Options{Refresh: refresh})
	s.lock("web-1", "report")
	_, err := chromedp.Call(s.tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	s.visit("?still=1")
	for _, want := range []string{"report", "web-1", "held", "1 key in all, with free ones.", "Reload by itself"} {
		s.until(fmt.Sprintf("document.body.innerText.includes(%q)", want))
	}
	if eval[bool](s, `document.getElementById("pause").checkVisibility()`) {
		t.Error("there is a button that does nothing")
	}
}
