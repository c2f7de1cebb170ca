// Package ui is a web page about the locks in a database: which keys are taken, by whom, since
// when and for how long, whether the holder lives, and who waits. It is an http.Handler that a
// program mounts where it likes; the command rowlock ui serves it alone.
//
//	page, err := ui.New(store, ui.Options{})
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/locks/", http.StripPrefix("/locks", page))
//
// # What the database pays
//
// All who look at the page share one poll: one List every Options.Refresh, however many they are,
// and none while nobody looks. A store with more keys than Options.Keys is read to that number; a
// prefix that a viewer asks for then has a poll of its own, of which there are at most eight. Of free
// keys whose own pages are looked at, of four at most, a poll also asks whether they are pinned.
//
// # What it shows
//
// What was true at the last poll. Whether a holder lives is found out by watching: a lease that
// ends later than it could have ended by an earlier poll was renewed in between, and one that is
// watched for longer than a living holder takes to renew it "is not renewed". That is a fact
// about the lease: a holder that asked for rowlock.NoRenew lives and does not renew. The list of
// losses has what the page itself has seen since the program began: leases that ended without a
// release, and those that were ended by force. What happens between two polls, or while nobody
// looks, it misses, but for those of clients that have Handler.Observer. Who waits is what waiting programs have left in the database (Info.Wanted,
// Info.Waiting): of programs without rowlock.Fair it says that somebody waits, not how many.
//
// # Who may look, and who may end a hold
//
// The page only reads unless Options.MayFree says of a request that it may more. Whoever reaches
// the page sees the names of keys and owners: put it behind what protects the rest of the
// program's internal pages, or behind [BasicAuth]. [Listen] refuses to open an address that other
// machines reach without that.
//
// A request must name one of Options.Hosts, or this machine, as its host, so that a site in the
// user's browser cannot reach the page under a name of its own. A hold is ended only by a POST from
// the page itself (http.CrossOriginProtection), and only if it is the hold whose token the user
// has seen (driver.ForcerIf). The pages run no script but their own, and cannot be framed.
package ui
