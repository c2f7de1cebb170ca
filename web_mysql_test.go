package rowlock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// TestGuideOwnersOnMySQL: what the guides say of an owner comes out with each strategy, on each server: the handler of
// web-requests.md in two pods, and the report of stuck-lock.md.
func TestGuideOwnersOnMySQL(t *testing.T) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		dsn := testdb.MySQL(t, kind).FormatDSN()
		for _, strategy := range []mysqllock.Strategy{mysqllock.VersionColumn, mysqllock.UniqueInsert, mysqllock.SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				pod := func() (*mysqllock.Store, *rowlock.Client) {
					store, err := mysqllock.Open(dsn, mysqllock.Options{Strategy: strategy})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = store.Close() })
					return store, testdb.Client(t, store, 0)
				}
				store, first := pod()
				if err := store.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				_, second := pod()
				ask := func(c *rowlock.Client, id string, write func(context.Context, http.ResponseWriter) error) *httptest.ResponseRecorder {
					r := httptest.NewRequest(http.MethodGet, "/export", nil)
					r.Header.Set("X-Request-Id", id)
					answer := httptest.NewRecorder()
					export(c, write)(answer, r)
					return answer
				}
				done := ask(first, "a1", func(context.Context, http.ResponseWriter) error {
					for who, c := range map[string]*rowlock.Client{"another pod": second, "the same pod": first} {
						refused := ask(c, "b2", func(context.Context, http.ResponseWriter) error { return nil })
						if refused.Code != http.StatusConflict || refused.Body.String() != "the export of request a1 is running\n" {
							t.Errorf("a request in %s: %d %s", who, refused.Code, refused.Body)
						}
					}
					return nil
				})
				if done.Code != http.StatusOK {
					t.Errorf("%d %s", done.Code, done.Body)
				}
				lease := acquire(t, first, "report", rowlock.Owner("pod-7:12"), rowlock.TTL(time.Minute), rowlock.NoRenew())
				defer lease.Release(context.Background())
				if says, err := stuck(t.Context(), second, "report", time.Millisecond); err != nil || !strings.HasPrefix(says, "pod-7:12 ") {
					t.Errorf("who has the key: %q, %v", says, err)
				}
			})
		}
	}
}
