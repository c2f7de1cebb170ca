package share

// Numbers as the statements have them: each is driver's, or what it is made of (numbers_test.go).
const (
	// mostSlotToken is driver.MaxToken - driver.TokenRange.
	mostSlotToken = "9223372036854773760"

	// firstReaderText is firstReader; readerToken is what a reader has in the column token.
	firstReaderText = "9223372036854775808"
	readerToken     = "18446744073709551615"

	// phaseAnswerText is phaseAnswer.
	phaseAnswerText = "576460752303423488"

	// ownAnswer is the answer to a join with Stand that finds its own hold: row.GrantedFrom - 1.
	ownAnswer = "1152921504606846975"

	// phaseLinedText is phaseLined.
	phaseLinedText = "5"
)
