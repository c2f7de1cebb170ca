package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/examples/internal/timed"
)

// About is what a server says of itself.
type About struct {
	Server     string `json:"server"`
	Version    string `json:"version"`
	Durability string `json:"durability"` // the settings that say what a commit is worth
}

// About asks the server.
func (s Server) About(ctx context.Context) (About, error) {
	ask := s.aboutSQL
	if s == MongoDB {
		ask = s.aboutMongo
	}
	a, err := ask(ctx)
	if err != nil {
		return a, fmt.Errorf("ask %s for its version: %w", s.Name(), err)
	}
	a.Server = s.Name()
	return a, nil
}

func (s Server) aboutSQL(ctx context.Context) (a About, err error) {
	db, err := s.SQL(1)
	if err != nil {
		return a, err
	}
	defer db.Close()
	var flush, sync, log int
	err = db.QueryRowContext(ctx, "SELECT @@version, @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin").Scan(&a.Version, &flush, &sync, &log)
	a.Durability = fmt.Sprintf("innodb_flush_log_at_trx_commit=%d sync_binlog=%d log_bin=%d", flush, sync, log)
	return a, err
}

func (s Server) aboutMongo(ctx context.Context) (a About, err error) {
	client, err := s.Mongo(1)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, timed.Within(time.Second, client.Disconnect)) }()
	admin := client.Database("admin")
	var build struct {
		Version string `bson:"version"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return a, err
	}
	a.Version = build.Version
	var hello struct {
		SetName string   `bson:"setName"`
		Hosts   []string `bson:"hosts"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return a, err
	}
	said := []string{"write concern " + writeConcern(admin.RunCommand(ctx, bson.D{{Key: "getDefaultRWConcern", Value: 1}}))}
	if hello.SetName == "" {
		said = append(said, "no replica set")
	} else {
		said = append(said, fmt.Sprintf("%d member(s)", len(hello.Hosts)))
	}
	var config struct {
		Config struct {
			Journal bool `bson:"writeConcernMajorityJournalDefault"`
		} `bson:"config"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&config); err == nil {
		said = append(said, fmt.Sprintf("writeConcernMajorityJournalDefault=%t", config.Config.Journal))
	}
	a.Durability = strings.Join(said, ", ")
	return a, nil
}

// writeConcern reads the answer to getDefaultRWConcern, which needs a right that
// a user may lack.
func writeConcern(answer interface{ Decode(any) error }) string {
	var d struct {
		Write struct {
			W any `bson:"w"`
		} `bson:"defaultWriteConcern"`
	}
	if err := answer.Decode(&d); err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return fmt.Sprint(d.Write.W)
}
