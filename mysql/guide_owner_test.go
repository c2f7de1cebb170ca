package mysqllock

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/rowlock/rowlock"
)

// export is the handler of docs/guides/web-requests.md; TestGuides compares the one in web_example_test.go of the root.
func export(locks rowlock.Locker, write func(context.Context, http.ResponseWriter) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := rowlock.Do(r.Context(), locks, "export", func(ctx context.Context, _ *rowlock.Lease) error {
			return write(ctx, w)
		}, rowlock.NoWait(), rowlock.Owner(r.Header.Get("X-Request-Id")))
		var held *rowlock.HeldError
		if errors.As(err, &held) {
			w.Header().Set("Retry-After", strconv.Itoa(1+int(held.Left.Seconds())))
			http.Error(w, "the export of request "+held.Owner+" is running", http.StatusConflict)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// TestGuideOwners: what the guides say of an owner comes out with each strategy, on each server: the handler of
// web-requests.md in two pods.
func TestGuideOwners(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		first, second := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		ask := func(p program, id string, write func(context.Context, http.ResponseWriter) error) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/export", nil)
			r.Header.Set("X-Request-Id", id)
			answer := httptest.NewRecorder()
			export(p.Client, write)(answer, r)
			return answer
		}
		done := ask(first, "a1", func(context.Context, http.ResponseWriter) error {
			for who, p := range map[string]program{"another pod": second, "the same pod": first} {
				refused := ask(p, "b2", func(context.Context, http.ResponseWriter) error { return nil })
				if refused.Code != http.StatusConflict || refused.Body.String() != "the export of request a1 is running\n" {
					t.Errorf("a request in %s: %d %s", who, refused.Code, refused.Body)
				}
			}
			return nil
		})
		if done.Code != http.StatusOK {
			t.Errorf("%d %s", done.Code, done.Body)
		}
	})
}
