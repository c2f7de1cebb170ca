package fencing

import "fmt"

// Filter is the condition on the field of a MongoDB document that keeps the token of
// its last write. It also matches a document that has no such field yet. Use it in
// the filter of an update that writes the field, and give what matched to Matched:
//
//	res, err := docs.UpdateOne(ctx,
//		bson.M{"_id": id, "fence": fencing.Filter(token)},
//		bson.M{"$set": bson.M{"total": total, "fence": token}})
//	if err == nil {
//		err = fencing.Matched(res.MatchedCount, token)
//	}
//
// Without upsert: that would try to insert the document a second time. Make it
// first. Write with concern majority, or a failover may forget the newer token.
func Filter(token int64) map[string]any {
	return map[string]any{"$not": map[string]any{"$gt": token}}
}

// Matched says what an update with Filter in its filter came to: ErrStale if no
// document matched. That a document is not there at all looks the same.
func Matched(matched, token int64) error {
	if matched == 0 {
		return fmt.Errorf("%w: no document takes %d: a newer token was there, or there is no such document", ErrStale, token)
	}
	return nil
}
