package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/observability/internal/grafana"
	"github.com/rowlock/rowlock/observability/internal/prom"
)

// recording is what the picture shows.
type recording struct {
	Seconds float64
	Events  []event
	Panels  []panel
	Caption []string
}

// event is something that was done to the programs.
type event struct {
	From, To float64 // seconds; To is 0: it took no time
	Text     string
}

// panel is one of the dashboard, with its answers.
type panel struct {
	Row, Title, Type, Unit string
	Min, Max               *float64
	Series                 []series
}

// series is a line.
type series struct {
	Name   string
	Points [][2]float64 // seconds and value; none is NaN
}

const (
	warmUp   = 14 * time.Second
	duration = 2 * time.Minute
	step     = time.Second
	rate     = 10 * time.Second // $__rate_interval: more than a few scrapes, some of which a busy machine misses
)

// record runs the programs and Prometheus, and asks it.
func record(ctx context.Context, dashboard string) (r recording, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	d, err := grafana.Read(dashboard)
	if err != nil {
		return r, err
	}
	program, err := prom.Find(ctx, "prometheus", os.Stderr)
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "dashboard")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := newServers(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	f := &fleet{ctx: ctx, targets: filepath.Join(dir, "targets.json"), of: s.task}
	defer func() { err = errors.Join(err, f.end()) }()
	if err := f.tell(); err != nil {
		return r, err
	}
	p, err := prom.Start(ctx, program, fmt.Sprintf("global: {scrape_interval: %s}\n"+
		"scrape_configs: [{job_name: rowlock, file_sd_configs: [{files: [%q], refresh_interval: 1s}]}]\n", step, f.targets), dir)
	if err != nil {
		return r, err
	}
	defer p.Close()
	for _, role := range []string{"admin", "import", "shop", "shop", "shop", "jobs", "jobs", "mail", "mail"} {
		if err := f.start(role); err != nil {
			return r, err
		}
	}
	sleep(ctx, warmUp)
	load := []string{loadAverage()}
	from := time.Now()
	if r.Events, err = scenario(ctx, from, f, s.proxy); err != nil {
		return r, err
	}
	r.Seconds = duration.Seconds()
	load = append(load, loadAverage())
	if r.Panels, err = ask(ctx, p, d, from); err != nil {
		return r, err
	}
	version, err := p.Version(ctx)
	if err != nil {
		return r, err
	}
	r.Caption = []string{
		fmt.Sprintf("Made by make dashboard on %s: the expressions of grafana.json, asked of Prometheus %s for every second, rates over %v.", from.Format(time.DateOnly), version, rate),
		fmt.Sprintf("9 processes on MySQL %s and MongoDB %s, scraped every second. Machine: %d cores, load average %s.", s.mysqlVersion, s.mongoVersion, runtime.NumCPU(), strings.Join(load, " to ")),
	}
	return r, nil
}

// loadAverage is that of the last minute, of all programs of the machine.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// asker is a Prometheus.
type asker interface {
	QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]prom.Series, error)
}

// ask evaluates all panels. One that would show nothing, and an expression without a number, is an error.
func ask(ctx context.Context, p asker, d grafana.Dashboard, from time.Time) (panels []panel, err error) {
	row := ""
	var empty []error
	for _, of := range d.Panels {
		if of.IsRow() {
			row = of.Title
			continue
		}
		made := panel{Row: row, Title: of.Title, Type: of.Type, Unit: of.FieldConfig.Defaults.Unit, Min: of.FieldConfig.Defaults.Min, Max: of.FieldConfig.Defaults.Max}
		for _, t := range of.Targets {
			answers, err := p.QueryRange(ctx, t.Query(rate), from, from.Add(duration), step)
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", of.Title, err)
			}
			found := false
			for _, a := range answers {
				line := series{Name: t.Legend(a.Metric)}
				for _, point := range a.Points {
					if !math.IsNaN(point.Value) {
						line.Points = append(line.Points, [2]float64{point.At.Sub(from).Seconds(), point.Value})
					}
				}
				if len(line.Points) > 0 {
					made.Series, found = append(made.Series, line), true
				}
			}
			if !found {
				empty = append(empty, fmt.Errorf("panel %s shows nothing of %s", of.Title, t.Expr))
			}
		}
		panels = append(panels, made)
	}
	return panels, errors.Join(empty...)
}

// servers are the databases, with what is made in them.
type servers struct {
	proxy                      *proxy
	dsn, uri, database         string
	admin                      *sql.DB
	client                     *mongo.Client
	mysqlVersion, mongoVersion string
}

func (s *servers) task(role string) task {
	t := task{Role: role, DSN: s.dsn}
	if role == "mail" {
		t.URI, t.Database = s.uri, s.database
	}
	return t
}

// newServers makes a database in each server.
func newServers(ctx context.Context) (s *servers, err error) {
	config, err := mysql.ParseDSN(os.Getenv("ROWLOCK_TEST_MYSQL_DSN"))
	if err != nil || config.Addr == "" || os.Getenv("ROWLOCK_TEST_MONGO_URI") == "" {
		return nil, errors.New("ROWLOCK_TEST_MYSQL_DSN and ROWLOCK_TEST_MONGO_URI are not both set: run make dashboard")
	}
	s = &servers{uri: os.Getenv("ROWLOCK_TEST_MONGO_URI"), database: "dashboard_" + strings.ToLower(rand.Text()[:8])}
	if s.admin, err = sql.Open("mysql", config.FormatDSN()); err != nil {
		return nil, err
	}
	if s.client, err = mongo.Connect(options.Client().ApplyURI(s.uri)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	var build struct{ Version string }
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.mongoVersion = build.Version
	if err := s.admin.QueryRowContext(ctx, "SELECT @@version").Scan(&s.mysqlVersion); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if _, err := s.admin.ExecContext(ctx, "CREATE DATABASE "+s.database); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.proxy, err = newProxy(config.Addr); err != nil {
		return nil, errors.Join(err, s.close())
	}
	config.DBName, config.Addr = s.database, s.proxy.Addr().String()
	s.dsn = config.FormatDSN()
	for _, role := range []string{"shop", "mail"} { // one of each server
		store, end, err := s.task(role).open(ctx)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		if err := errors.Join(store.Migrate(ctx), end()); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// close removes what was made.
func (s *servers) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if s.proxy != nil {
		err = errors.Join(err, s.proxy.Close())
	}
	if s.admin != nil {
		_, e := s.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+s.database)
		err = errors.Join(err, e, s.admin.Close())
	}
	if s.client != nil {
		err = errors.Join(err, s.client.Database(s.database).Drop(ctx), s.client.Disconnect(ctx))
	}
	return err
}
