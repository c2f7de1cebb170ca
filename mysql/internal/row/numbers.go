package row

// Numbers as the statements have them: each is driver's, or what it is made of (numbers_test.go).
const (
	TokenRange = "1024"                // driver.TokenRange
	leastToken = "1152921504606846976" // GrantedFrom: the least of a grant

	entrySizeText = "37"        // entrySize
	entryNext     = "38"        // where the second entry of a line begins
	lineFull      = "2368"      // the length of a line of driver.MaxLine entries
	mostEndText   = "120000000" // mostEnd, in microseconds

	maxClient = "2097151" // driver.MaxClient
)
