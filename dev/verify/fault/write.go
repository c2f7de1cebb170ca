package fault

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// write writes something durable into a table of its own.
func (e *Env) write(ctx context.Context) error {
	if e.Mongo != nil {
		c := e.Mongo.Database("fault").Collection("well", options.Collection().SetWriteConcern(writeconcern.Majority()))
		_, err := c.UpdateByID(ctx, 1, bson.M{"$inc": bson.M{"n": 1}}, options.UpdateOne().SetUpsert(true))
		return err
	}
	for _, text := range []string{
		"CREATE DATABASE IF NOT EXISTS fault",
		"CREATE TABLE IF NOT EXISTS fault.well (n BIGINT AUTO_INCREMENT PRIMARY KEY)",
		"INSERT INTO fault.well VALUES ()",
	} {
		if _, err := e.DB.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}
