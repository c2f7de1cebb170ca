package fault

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// clocks are how far the members' clocks are ahead of the machine's.
func (l *lab) clocks(t *testing.T) func(ctx context.Context) []time.Duration {
	if l.DB != nil {
		return func(ctx context.Context) []time.Duration {
			var text string
			if l.DB.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&text) != nil {
				return nil
			}
			at, err := time.Parse("2006-01-02 15:04:05.000000", text)
			must(t, err)
			return []time.Duration{time.Until(at)}
		}
	}
	members, err := addresses(l.Server)
	must(t, err)
	var clients []*mongo.Client
	for _, m := range members {
		c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + m + "/?directConnection=true").SetHeartbeatInterval(500 * time.Millisecond))
		must(t, err)
		t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
		clients = append(clients, c)
	}
	return func(ctx context.Context) (list []time.Duration) {
		for _, c := range clients {
			var hello struct {
				LocalTime time.Time `bson:"localTime"`
			}
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			if c.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello) != nil {
				return nil
			}
			list = append(list, time.Until(hello.LocalTime))
		}
		return list
	}
}

// stepsClock: the clock is off by so much, and right again.
func stepsClock(least, most time.Duration) func(*testing.T, *lab, Fault) {
	off := func(least, most time.Duration) func(time.Duration) bool {
		return func(d time.Duration) bool { return d.Abs() > least && d.Abs() < most }
	}
	return func(t *testing.T, l *lab, f Fault) {
		if !l.Server.Troubled() {
			t.Skip("the server's clock is the machine's")
		}
		clocks := l.clocks(t)
		l.saw(t, f, func(ctx context.Context) bool { return slices.ContainsFunc(clocks(ctx), off(least, most)) })
		list := clocks(t.Context())
		wrong := func() bool {
			return len(list) == 0 || slices.ContainsFunc(list, off(100*time.Millisecond, 2*time.Hour))
		}
		for end := time.Now().Add(10 * time.Second); wrong() && time.Now().Before(end); list = clocks(t.Context()) {
			time.Sleep(10 * time.Millisecond) // it was started anew, or a slow answer shows its own time
		}
		if wrong() {
			t.Errorf("clocks are ahead by %v afterwards", list)
		}
	}
}

func TestClockSteppedFar(t *testing.T) {
	each(t, "clock-stepped-far", stepsClock(time.Hour-time.Minute, time.Hour+time.Minute))
}

func TestClockSteppedLittle(t *testing.T) {
	each(t, "clock-stepped-little", stepsClock(100*time.Millisecond, time.Second))
}

// TestDiskFull: an insert does not succeed while the disk is full.
func TestDiskFull(t *testing.T) {
	each(t, "disk-full", func(t *testing.T, l *lab, f Fault) {
		if !l.Server.Troubled() {
			t.Skip("the server's disk is the machine's")
		}
		l.until(t, f, func(what string, ops []op) bool {
			return failed(what, ops) || l.hung(t)(what, ops)
		})
	})
}
