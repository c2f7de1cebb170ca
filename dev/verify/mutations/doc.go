// Mutations puts bugs into a copy of the repository, one after the other, and looks
// whether a test notices: a promise whose tests pass with the bug in place is not
// tested. Each bug is a file in patches: a header that says what it does, which
// promise it breaks and which test must fail, then a diff.
//
//	mutations [-short] [-base] [-refresh] [name ...]
//
// It is run from a folder of the repository, and by "make mutations", which starts
// the servers that the tests need. It fails if a bug survives, if a patch does not
// apply or does not compile, if a test command runs no test, and if one fails
// without a bug too. -base runs only the tests, without any bug. -refresh makes
// patches fit again whose surroundings have changed, and names those that a person
// must look at. -short looks whether every patch applies and compiles, and runs those
// that say "Short: yes", which need no server.
package main
