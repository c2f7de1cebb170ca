package fault

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// movesPrimary wants another member to become primary.
func movesPrimary(t *testing.T, l *lab, f Fault) {
	before, err := l.scene().primary(t.Context())
	must(t, err)
	l.saw(t, f, func(ctx context.Context) bool {
		now, err := l.scene().primary(ctx)
		return err == nil && now != before
	})
}

func TestPrimarySteppedDown(t *testing.T) { each(t, "primary-stepped-down", movesPrimary) }
func TestPrimaryKilled(t *testing.T)      { each(t, "primary-killed", movesPrimary) }
func TestPrimaryFrozen(t *testing.T)      { each(t, "primary-frozen", movesPrimary) }

// TestPrimaryCutOff: another member becomes primary, and the old one still answers.
func TestPrimaryCutOff(t *testing.T) {
	each(t, "primary-cut-off", func(t *testing.T, l *lab, f Fault) {
		if l.Mongo == nil {
			return // TestPrimaryThatAnswers is that of servers of SQL
		}
		if !l.Server.Troubled() {
			t.Skip("the server's network is the machine's")
		}
		clocks := l.clocks(t) // of all members, each asked by itself
		before, err := l.scene().primary(t.Context())
		must(t, err)
		l.saw(t, f, func(ctx context.Context) bool {
			now, err := l.scene().primary(ctx)
			return err == nil && now != before && len(clocks(ctx)) == 3
		})
	})
}

// TestSecondaryKilled: the primary misses a member, and goes on.
func TestSecondaryKilled(t *testing.T) {
	each(t, "secondary-killed", func(t *testing.T, l *lab, f Fault) {
		if l.Mongo == nil {
			l.saw(t, f, func(ctx context.Context) bool {
				for _, dsn := range l.Server.MemberDSNs() {
					if once(ctx, dsn, "DO 1") != nil {
						return l.insert(ctx, l.TTL).err == nil
					}
				}
				return false
			})
			return
		}
		admin := l.Mongo.Database("admin")
		l.saw(t, f, func(ctx context.Context) bool {
			var status struct {
				Members []struct {
					Health int `bson:"health"`
				}
			}
			if admin.RunCommand(ctx, bson.D{{Key: "replSetGetStatus", Value: 1}}).Decode(&status) != nil {
				return false
			}
			for _, m := range status.Members {
				if m.Health == 0 {
					return l.insert(ctx, l.TTL).err == nil
				}
			}
			return false
		})
	})
}

func TestDocumentsWritten(t *testing.T) {
	each(t, "documents-written", func(t *testing.T, l *lab, f Fault) {
		coll := l.Mongo.Database("test").Collection("hot")
		l.saw(t, f, func(ctx context.Context) bool {
			for _, key := range l.Spaces[0].Keys {
				// A transaction does not wait: it learns of the conflict at once.
				err := l.Mongo.UseSession(ctx, func(ctx context.Context) error {
					session := mongo.SessionFromContext(ctx)
					if err := session.StartTransaction(); err != nil {
						return err
					}
					_, err := coll.UpdateByID(ctx, bson.Binary{Data: []byte(key)}, bson.M{"$inc": bson.M{"n": 1}})
					_ = session.AbortTransaction(ctx)
					return err
				})
				if e, ok := err.(mongo.CommandError); ok && e.Name == "WriteConflict" {
					return true
				}
			}
			return false
		})
	})
}

func TestDocumentsContended(t *testing.T) {
	each(t, "documents-contended", func(t *testing.T, l *lab, f Fault) {
		coll := l.Mongo.Database("test").Collection("hot")
		var first int
		l.saw(t, f, func(ctx context.Context) bool {
			sum := 0
			cursor, err := coll.Find(ctx, bson.M{})
			var docs []struct{ Foreign int }
			if err != nil || cursor.All(ctx, &docs) != nil {
				return false
			}
			for _, d := range docs {
				sum += d.Foreign
			}
			if first == 0 {
				first = sum + 1
			}
			return sum > first+3
		})
	})
}

func TestFsyncLocked(t *testing.T) {
	each(t, "fsync-locked", func(t *testing.T, l *lab, f Fault) { l.until(t, f, l.hung(t)) })
}
