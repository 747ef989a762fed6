//! Why streams end, and why they are not opened.

use crate::metrics::StreamEnd;

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The client closed its side of a bidirectional stream; nothing waits for catch-up (ARC-083).
    #[error("the client ended the stream")]
    HalfClosed,
    /// The client is gone.
    #[error("the client is gone")]
    Gone,
    /// The client sent something that it must not send.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The client sent bytes that are no frame; the transport says what is wrong with them.
    #[error("a frame cannot be read")]
    Unreadable,
    /// More Updates than allowed (ARC-085).
    #[error("too many Update frames")]
    TooManyUpdates,
    /// More Pings than allowed (ARC-085).
    #[error("too many Ping frames")]
    TooManyPings,
    /// The client reads too slowly (ARC-080).
    #[error("the subscriber reads too slowly")]
    TooSlow,
    /// Something does not fit the bounds it must fit (ARC-079, ARC-080).
    #[error("the stream exceeds what the server can hold for it")]
    TooLarge,
    /// More gaps than may be remembered (ARC-042).
    #[error("stream recovery exceeds its capacity")]
    TooManyGaps,
    /// No Pong came in time (ARC-081).
    #[error("no Pong arrived in time")]
    NoPong,
    /// What the instance knew of the log is void (ARC-041).
    #[error("stream recovery restarts")]
    Recovery,
    /// The database failed this stream, or a task that all streams need (ARC-082).
    #[error("the database failed the stream")]
    Database,
    /// The server stops (ARC-003).
    #[error("the server is shutting down")]
    Shutdown,
}

impl End {
    /// The label of this end.
    #[must_use]
    pub fn reason(&self) -> StreamEnd {
        match self {
            Self::HalfClosed | Self::Gone => StreamEnd::Client,
            Self::Invalid(_) | Self::Unreadable => StreamEnd::Invalid,
            Self::TooManyUpdates | Self::TooManyPings => StreamEnd::RateLimited,
            Self::TooSlow => StreamEnd::Backpressure,
            Self::TooLarge | Self::TooManyGaps => StreamEnd::Capacity,
            Self::NoPong => StreamEnd::Keepalive,
            Self::Recovery => StreamEnd::Tailer,
            Self::Database => StreamEnd::Database,
            Self::Shutdown => StreamEnd::Shutdown,
        }
    }

    /// Whether the frames that are queued already are still worth sending.
    pub(super) fn keeps_queue(&self) -> bool {
        !matches!(self, Self::TooSlow)
    }
}

/// What is wrong with a frame or a request for a static stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A frame without a kind (API-106).
    #[error("the frame has no request")]
    Unset,
    /// Ids of Updates rise (API-102).
    #[error("the id of an Update must be greater than 0 and than every earlier one")]
    UpdateId,
    /// Too many topics added at once.
    #[error("an Update may add at most {max} topics")]
    TooManyAdds {
        /// The limit.
        max: u32,
    },
    /// Too many topics removed at once.
    #[error("an Update may remove at most {max} topics")]
    TooManyRemoves {
        /// The limit.
        max: u32,
    },
    /// Too many topics on the stream.
    #[error("a stream may have at most {max} topics")]
    TooManyTopics {
        /// The limit.
        max: u32,
    },
    /// Not a topic.
    #[error("a topic is not well formed")]
    Topic,
    /// Above the signed 64-bit range (API-004).
    #[error("a cursor is out of range")]
    Cursor,
    /// A topic occurs twice in one Update or request.
    #[error("a topic occurs twice")]
    RepeatedTopic,
    /// A static stream of nothing.
    #[error("a static subscription needs at least one topic")]
    NoTopics,
}

/// Why a stream was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is not one.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A generation of stream recovery is in progress.
    #[error("streams are recovering")]
    Recovering,
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The heads of the topics cannot be read. Logged and counted already.
    #[error("the database failed the stream")]
    Database,
    /// The answer does not fit the bounds it must fit.
    #[error("the stream exceeds what the server can hold for it")]
    TooLarge,
}
