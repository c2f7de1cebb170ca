package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is one that uses all published packages and needs no server.
const program = `package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	otelrowlock "github.com/rowlock/rowlock/adapters/otel"
	promrowlock "github.com/rowlock/rowlock/adapters/prom"
	"github.com/rowlock/rowlock/memory"
	"github.com/rowlock/rowlock/migrations"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

var (
	_ = mongolock.Options{}
	_ = otelrowlock.Config{}
	_ = promrowlock.Options{}
)

func main() {
	ctx := context.Background()
	locks, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	report := func(context.Context, *rowlock.Lease) error { fmt.Println("cronlock runs"); return nil }
	cronlock.Job(cron.DefaultLogger, locks, "report", report, cronlock.Period(time.Minute)).Run()
	if _, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(locks))); err != nil {
		log.Fatal(err)
	}
	store, err := mysqllock.Open("app:secret@tcp(127.0.0.1:3306)/app", mysqllock.Options{}) // sends nothing
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	files, err := migrations.MySQL.ReadDir("mysql")
	if err != nil || len(files) == 0 {
		log.Fatal("no migrations: ", err)
	}
	fmt.Println("all packages are there")
}
`

// tryOutside builds and runs a program that gets the modules by their versions, from the proxy alone. Other modules come
// from the cache of this machine, or as ever.
func tryOutside(work, proxy string, modules []module) error {
	folder := filepath.Join(work, "program")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	had, err := output("go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return err
	}
	cache, upstream, _ := strings.Cut(had, "\n")
	env := append(os.Environ(),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(cache)+"/cache/download,"+upstream,
		"GONOSUMDB="+rootModule+","+rootModule+"/*", "GONOPROXY=", "GOMODCACHE="+filepath.Join(work, "cache"),
		"GOBIN="+filepath.Join(work, "bin"), "GOWORK=off", "GOFLAGS=-mod=mod",
	)
	outside := func(name string, args ...string) error {
		fmt.Println("==", name, strings.Join(args, " "))
		c := exec.Command(name, args...)
		c.Dir, c.Env, c.Stdout, c.Stderr = folder, env, os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("outside of the repository: %s %s: %w", name, strings.Join(args, " "), err)
		}
		return nil
	}
	get := []string{"get"}
	for _, m := range modules {
		if !strings.HasPrefix(m.folder, "cmd/") {
			get = append(get, m.path()+"@"+m.version)
		}
	}
	for _, args := range [][]string{{"mod", "init", "example.com/program"}, get, {"mod", "tidy"}, {"vet", "."}, {"run", "."}} {
		if err := outside("go", args...); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(modules, func(m module) bool { return m.folder == "cmd/rowlock" })
	if i < 0 {
		return nil
	}
	if err := outside("go", "install", modules[i].path()+"@"+modules[i].version); err != nil {
		return err
	}
	return outside(filepath.Join(work, "bin", "rowlock"), "version")
}
