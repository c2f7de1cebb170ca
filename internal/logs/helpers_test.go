package logs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// lines is a handler that keeps what it gets, as "level message attributes". With block it
// waits before each record.
type lines struct {
	block chan struct{} // nil: it does not block
	steps bool          // it wants them

	mu   sync.Mutex
	text []string
	at   []time.Time
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }

func (l *lines) Enabled(_ context.Context, level slog.Level) bool {
	return l.steps || level >= slog.LevelInfo
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if l.block != nil {
		<-l.block
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprint(" ", a); return true })
	l.text, l.at = append(l.text, text), append(l.at, time.Now())
	return nil
}

func (l *lines) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.text...)
}
