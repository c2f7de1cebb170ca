// Package ui is a web page about the locks in a database. It shows which keys are taken, by whom, since when, whether the
// holder lives, and who waits. What needs a person comes first, with what to do.
//
//	page, err := ui.New(store, ui.Options{Title: "Locks of the shop", Hosts: []string{"internal.example.com"}})
//	if err != nil { … }
//	defer page.Close()
//	mux.Handle("/locks/", page)
//
// The command rowlock ui serves the same page without a program of yours. [New] has an example below; the guide is
// docs/guides/page.md of the repository.
//
// # What the database pays
//
// All viewers share one poll: one List every Options.Refresh, however many viewers there are, and none while nobody looks.
// If a store has more keys than Options.Keys, the page reads that many. A prefix that a viewer asks for then has a poll of
// its own: at most 16, and at most eight for one user. A poll also asks whether free keys are pinned, for at most four keys
// whose own pages are open.
//
// # What it shows
//
// What was true at the last poll. While the database does not answer, the page shows the last answer with its time, or that
// nothing is known.
//
// It finds out by watching whether a holder lives. A lease that ends later than an earlier poll said was renewed in between.
// A lease that was watched for longer than a living holder needs to renew it is "not renewed". That is a fact about the
// lease: a holder that asked for rowlock.NoRenew lives and does not renew.
//
// The list of losses has what the page itself has seen since the program began: leases that ended without a release, and
// leases that were ended by force. It misses what happens between two polls or while nobody looks, except for clients that
// have Handler.Observer. Who waits is what the database knows (Info.Waiting): how many programs, and since when the first
// of them does. With SelectForUpdate the page says only that at least one waits.
//
// # Who may look, and who may end a hold
//
// The page only reads, unless Options.MayFree allows a request more. Everybody who reaches the page sees the names of keys
// and owners: protect it as the program's other internal pages, or by [BasicAuth]. [Listen] refuses an address that other
// machines reach, unless the caller says that the page is protected.
//
// A request must name one of Options.Hosts, or this machine, as its host, so that a site in the user's browser cannot reach
// the page under a name of its own. Only a POST from the page itself ends a hold (http.CrossOriginProtection), and only the
// hold whose token the user has seen (driver.ForcerIf). The pages run no script but their own, and cannot be framed.
package ui
