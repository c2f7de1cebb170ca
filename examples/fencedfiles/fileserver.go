package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rowlock/rowlock/fencing"
)

// tokenHeader carries the token of the writer's lease.
const tokenHeader = "Fencing-Token"

// fileServer keeps files in a directory: PUT /files/{name} writes one.
type fileServer struct {
	dir   string
	fence bool
	seen  *fencing.Register
}

// newFileServer makes one on a directory of its own. The register is a file beside
// the files, so a server that starts again remembers the tokens.
func newFileServer(dir string, fence bool) (*fileServer, error) {
	seen, err := fencing.OpenRegister(filepath.Join(dir, "tokens"))
	return &fileServer{dir: dir, fence: fence, seen: seen}, err
}

func (s *fileServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /files/{name}", s.put)
	return mux
}

func (s *fileServer) put(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	token, err := strconv.ParseInt(r.Header.Get(tokenHeader), 10, 64)
	if err != nil || !filepath.IsLocal(name) || name != filepath.Base(name) {
		http.Error(w, "a file name and the header "+tokenHeader+" are needed", http.StatusBadRequest)
		return
	}
	// All that can be slow comes before: while Do runs, newer tokens wait.
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	write := func() error { return os.WriteFile(s.path(name), content, 0o600) }
	if s.fence {
		err = s.seen.Do(name, token, write)
	} else {
		err = write()
	}
	switch {
	case errors.Is(err, fencing.ErrStale):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *fileServer) path(name string) string { return filepath.Join(s.dir, "file-"+name) }
