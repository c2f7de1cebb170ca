// Package command runs commands on a MongoDB database and says what became of them.
//
// A [Runner] sends a command to the primary within a time limit of the server ([Limit]
// learns how long is usual), on one of a bounded number of connections, outside of every
// session of the caller. It repeats what may be repeated, notices a connection that has
// died in silence, explains a connection pool that is exhausted, and turns an error into a
// driver.Error with the facts that the engine needs. [Sessions] are those whose writes are
// numbered, so that the server refuses an attempt that arrives after its undo.
//
// Every command goes out as a document of its own (RunCommand), not through the driver's
// helpers, because three things must be exact that the helpers of mongo-driver 2.9 do not
// offer:
//
//   - maxTimeMS, the server's own limit. The helpers derive it from the context's
//     deadline, and the client then gives up at the same moment: it never learns that the
//     server had refused, which is what tells pinned from unknown.
//   - the number of a retryable write ([Session]).
//   - the reply of a write together with its write concern error.
//
// The price is that the driver repeats nothing: [Runner.Write] and [Runner.Read] do.
//
// It knows no key, lease or fence: what a command says and what its reply means is the
// caller's business.
package command
