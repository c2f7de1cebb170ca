package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// refresh makes the diffs of patches fit the code as it is now, where only what stands
// around the bug has changed, and names those that a person must look at. A diff that
// applies stays as it is.
func (t *tree) refresh(ctx context.Context, all []*mutation) error {
	var byHand []string
	for _, m := range all {
		if t.apply(ctx, m) == nil {
			if err := t.restore(m); err != nil {
				return err
			}
			continue
		}
		err := t.apply(ctx, m, "-C0")
		if err == nil {
			err = t.rewrite(ctx, m)
		}
		if e := t.restore(m); e != nil {
			return e
		}
		if err != nil {
			byHand = append(byHand, m.name)
			fmt.Printf("%s: by hand: %v\n", m.name, err)
			continue
		}
		fmt.Printf("%s: refreshed\n", m.name)
	}
	if len(byHand) > 0 {
		return fmt.Errorf("%d of %d patches must be refreshed by hand: %s", len(byHand), len(all), strings.Join(byHand, " "))
	}
	return nil
}

// place is where a hunk belongs; git names the function after it.
var place = regexp.MustCompile(`(?m)^(@@ [^@]+ @@).*$`)

// rewrite makes the diff of a patch anew, from what the copy differs in.
func (t *tree) rewrite(ctx context.Context, m *mutation) error {
	var diff strings.Builder
	for _, path := range m.paths {
		cmd := exec.CommandContext(ctx, "git", "diff", "--no-index", "--no-color", "--no-ext-diff", "-U1", "--", filepath.Join(t.from, path), filepath.Join(t.dir, path))
		text, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return err
		}
		_, hunks, found := strings.Cut(string(text), "\n@@ ")
		if !found {
			return fmt.Errorf("it changes nothing in %s", path)
		}
		hunks = place.ReplaceAllString("@@ "+hunks, "$1")
		fmt.Fprintf(&diff, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n%s", path, path, path, path, hunks)
	}
	old, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	header, _, _ := strings.Cut(string(old), "\ndiff --git ")
	return os.WriteFile(m.file, []byte(header+"\n"+diff.String()), 0o644)
}
