package rowlockcli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// logger writes what the library logs as lines on stderr: warnings and errors, with --verbose all.
func (a *app) logger() *slog.Logger { return slog.New(&lines{a: a}) }

// lostMessage is what the library logs of a lease that is lost.
const lostMessage = "lease lost"

// lines is a slog.Handler: rowlock: message (key=value …).
type lines struct {
	a     *app
	attrs string
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || l.a.flags.verbose
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Message == lostMessage && !l.a.flags.verbose {
		return nil // run says it too, with what it does about it
	}
	var b strings.Builder
	b.WriteString(l.attrs)
	r.Attrs(func(attr slog.Attr) bool {
		write(&b, attr)
		return true
	})
	l.a.say("%s (%s)", r.Message, strings.TrimPrefix(b.String(), " "))
	return nil
}

func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, attr := range attrs {
		write(&b, attr)
	}
	return &lines{a: l.a, attrs: l.attrs + b.String()}
}

func (l *lines) WithGroup(string) slog.Handler { return l } // the library has none

func write(b *strings.Builder, attr slog.Attr) {
	value := attr.Value.Resolve()
	if attr.Key == "key" || attr.Key == "owner" {
		fmt.Fprintf(b, " %s=%q", attr.Key, value.String())
		return
	}
	fmt.Fprintf(b, " %s=%v", attr.Key, value)
}
