package ui

import (
	"embed"
	"net/http"
	"path"
	"strings"
)

// route finds what a request asks for by the last part of its path, so that the page works
// wherever it is mounted.
func (h *Handler) route(w http.ResponseWriter, r *http.Request) {
	if h.open.Err() != nil {
		h.message(w, r, http.StatusServiceUnavailable, "This page was closed", "The program that serves it is about to end.")
		return
	}
	if r.URL.Path == "" { // by http.StripPrefix
		h.addSlash(w, r)
		return
	}
	_, name := path.Split(r.URL.Path)
	switch name {
	case "":
		h.get(w, r, h.list)
	case "key":
		h.get(w, r, h.key)
	case "events":
		h.get(w, r, h.events)
	case "keys.json":
		h.get(w, r, h.keysJSON)
	case "free":
		if r.Method == http.MethodPost {
			h.free(w, r)
			return
		}
		h.get(w, r, h.freeForm)
	default:
		if a, ok := assets[name]; ok {
			h.get(w, r, a.serve)
			return
		}
		h.message(w, r, http.StatusNotFound, "There is no such page", "")
	}
}

// get serves requests that read.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.message(w, r, http.StatusMethodNotAllowed, "This page only answers GET", "")
		return
	}
	serve(w, r)
}

// addSlash sends the browser to the folder: relative links need the slash at the end.
func (h *Handler) addSlash(w http.ResponseWriter, r *http.Request) {
	whole, _, _ := strings.Cut(r.RequestURI, "?")
	base := path.Base(whole)
	if base == "/" || base == "." {
		base = "."
	}
	w.Header().Set("Location", "./"+base+"/")
	w.WriteHeader(http.StatusMovedPermanently)
}

// asset is a file whose name changes with its content, so that browsers keep it.
type asset struct {
	content []byte
	kind    string
}

//go:embed assets
var files embed.FS

// assets are the files by their names in links; assetNames has these names.
var assets, assetNames = loadAssets(map[string]string{
	"style.css": "text/css; charset=utf-8",
	"page.js":   "text/javascript; charset=utf-8",
	"icon.svg":  "image/svg+xml",
})

func loadAssets(kinds map[string]string) (map[string]asset, map[string]string) {
	byName, names := make(map[string]asset), make(map[string]string)
	for file, kind := range kinds {
		content, err := files.ReadFile("assets/" + file)
		if err != nil {
			continue // the package does not build without it
		}
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "-" + digest(content) + ext
		byName[name], names[file] = asset{content, kind}, name
	}
	return byName, names
}

func (a asset) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content) // the browser went away
}
