package ui

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// maxForm is the most bytes of a form.
const maxForm = 16 << 10

// mayFree reports whether the user may free keys. Otherwise it has answered the request.
func (h *Handler) mayFree(w http.ResponseWriter, r *http.Request) (actor string, ok bool) {
	if h.o.MayFree == nil {
		h.message(w, r, http.StatusForbidden, "This page only reads", "It frees no keys. Nothing was changed.")
		return "", false
	}
	if actor, ok = h.o.MayFree(r); !ok {
		h.message(w, r, http.StatusForbidden, "You cannot free keys here", "Nothing was changed.")
	}
	return actor, ok
}

// freeForm asks whether the hold of a key is to be ended, and shows which one that is.
func (h *Handler) freeForm(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.mayFree(w, r); !ok {
		return
	}
	v, s, ok := h.look(w, r, true, time.Time{})
	if !ok {
		return
	}
	if !s.live() {
		h.message(w, r, http.StatusBadGateway, "The database does not answer", "It is not known who has "+printable(v.key)+". Nothing was changed.")
		return
	}
	h.askToFree(w, r, http.StatusOK, v, s, "")
}

// askToFree is the form; problem says why it comes again.
func (h *Handler) askToFree(w http.ResponseWriter, r *http.Request, status int, v view, s *snapshot, problem string) {
	rows, _ := v.rows(s, h.o.Prefix, 1)
	now := rows[0]
	switch {
	case now.Pinned:
		h.message(w, r, http.StatusConflict, printable(v.key)+" is held by nobody",
			"But an open transaction of its last holder must end first: find that transaction, and end it. Nothing was changed.")
		return
	case !now.Held:
		h.message(w, r, http.StatusConflict, printable(v.key)+" is free", "There is nothing to end. Nothing was changed.")
		return
	}
	p := h.newPage(r, s, v)
	p.Reload = 0 // the user types
	p.Name, p.ID, p.Owner = printable(v.key), keyID(v.key), printable(now.Owner)
	p.Head = "Free " + p.Name + "? – " + h.o.Title
	p.Token, p.Hold, p.Kept, p.Error = now.Token, now.Hold.String(), now.Kept, problem
	p.Until = span(now.most / 2)
	switch now.life {
	case lives:
		p.Alive = "End it although its holder lives: it has renewed its lease lately."
	case unclear:
		p.Alive = "End it although its holder may live: the page has not watched it for long enough. In " +
			span(max(now.unknownFor(h.o.Refresh), time.Second)) + " it is known."
	}
	h.write(w, status, "free", p)
}

// seen is the hold that a form was about.
func seen(r *http.Request, key string) (i driver.Info, err error) {
	i.Key = key
	if i.Token, err = strconv.ParseInt(r.PostForm.Get("token"), 10, 64); err != nil {
		return i, err
	}
	hold, err := hex.DecodeString(r.PostForm.Get("hold"))
	if err == nil && copy(i.Hold[:], hold) != len(i.Hold) {
		err = errors.New("no hold")
	}
	return i, err
}

// free ends the hold that the form was about, if the key still has it.
func (h *Handler) free(w http.ResponseWriter, r *http.Request) {
	actor, ok := h.mayFree(w, r)
	if !ok {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		h.message(w, r, http.StatusBadRequest, "The form cannot be read", "Nothing was changed.")
		return
	}
	v, s, ok := h.look(w, r, true, time.Now())
	if !ok {
		return
	}
	want, err := seen(r, v.key)
	if err != nil {
		h.message(w, r, http.StatusBadRequest, "The form is not complete", "It does not say which hold is to be ended. Nothing was changed.")
		return
	}
	if !s.failing.IsZero() {
		h.message(w, r, http.StatusBadGateway, "The database does not answer", "Nothing was changed.")
		return
	}
	now := s.find(v.key)
	switch {
	case now == nil || now.Token != want.Token || now.Hold != want.Hold:
		h.changed(w, r, v.key)
	case r.PostForm.Get("typed") != printable(v.key):
		h.askToFree(w, r, http.StatusUnprocessableEntity, v, s, "That is not the key. Nothing was changed.")
	case now.isHold() && now.life != silent && r.PostForm.Get("alive") == "":
		h.askToFree(w, r, http.StatusConflict, v, s, "Its holder lives, or may live. Nothing was changed.")
	default:
		h.end(w, r, now.Info, actor)
	}
}

// changed says that the key has another hold than the user has seen.
func (h *Handler) changed(w http.ResponseWriter, r *http.Request, key string) {
	p := &page{Title: h.o.Title, Where: h.o.Database, Head: printable(key) + " has changed hands", Back: linkTo(key),
		Note: "It has another holder now, or none, than the one that you have seen. Nothing was changed: look again."}
	h.write(w, http.StatusConflict, "message", p)
}

// end ends a hold. The user's leaving does not stop it half way.
func (h *Handler) end(w http.ResponseWriter, r *http.Request, hold driver.Info, actor string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	before, err := h.forcer.ForceReleaseIf(ctx, hold)
	log := h.o.Logger.With("key", printable(hold.Key), "token", hold.Token, "owner", printable(hold.Owner), "actor", actor)
	switch {
	case errors.Is(err, driver.ErrChanged):
		h.changed(w, r, hold.Key)
		return
	case err != nil:
		log.Error("a hold could not be ended from the page", "err", err)
		h.message(w, r, http.StatusBadGateway, "The hold was not ended, or it is not known",
			"The database gave an error, which is in the program's log. An open transaction of the holder may be in the way. Look again.")
		return
	}
	log.Warn("a hold was ended from the page", "pinned", before.Pinned)
	by := ""
	if actor != "" {
		by = " by " + printable(actor)
	}
	h.pollers.losses.forced(loss{At: time.Now(), Key: hold.Key, Owner: hold.Owner, Token: hold.Token, How: "was ended from this page" + by, Here: true})
	h.shown(r, hold.Key)
	w.Header().Set("Location", linkTo(hold.Key, "freed", fmt.Sprint(hold.Token)))
	w.WriteHeader(http.StatusSeeOther)
}

// shown waits until the state that a user has brought about is polled, so that the next page shows it.
func (h *Handler) shown(r *http.Request, key string) {
	p, _, err := h.pollers.look(r.Context(), h.user(r), view{key: key}, time.Now())
	if err == nil {
		p.leave(key)
	}
}
