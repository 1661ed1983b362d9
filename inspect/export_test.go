package inspect

// Bounds are the ends of all buckets but the last.
var Bounds = bounds[:]

// BucketOf is what Record goes by.
var BucketOf = bucketOf
