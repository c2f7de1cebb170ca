package fault

import (
	"context"
	"testing"
)

func TestPrimarySwitched(t *testing.T)   { each(t, "primary-switched", movesPrimary) }
func TestSuccessorFrozen(t *testing.T)   { each(t, "successor-frozen", movesPrimary) }
func TestSuccessorClockOff(t *testing.T) { each(t, "successor-clock-off", movesPrimary) }
func TestReplicasBehind(t *testing.T)    { each(t, "replicas-behind", movesPrimary) }

// TestPrimaryThatAnswers: while the primary is cut off it answers, and another takes writes.
func TestPrimaryThatAnswers(t *testing.T) {
	each(t, "primary-cut-off", func(t *testing.T, l *lab, f Fault) {
		if l.DB == nil {
			return // TestPrimaryCutOff is that of MongoDB
		}
		if !l.Server.Troubled() {
			t.Skip("the server's network is the machine's")
		}
		before, err := l.scene().primary(t.Context())
		must(t, err)
		old, err := openSQL(l.Server.MemberDSNs()[before])
		must(t, err)
		defer old.Close()
		l.saw(t, f, func(ctx context.Context) bool {
			now, err := l.scene().primary(ctx)
			return err == nil && now != before && old.PingContext(ctx) == nil
		})
	})
}
