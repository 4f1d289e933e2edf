/* The plugin boundary of Rewire: plain C, ABI 1.6. C++ authors include rewire_plugin.hpp, which wraps it.
 *
 * A plugin is a shared library that exports one function, rewire_plugin_query, which returns a static
 * descriptor. The host checks the descriptor. Then it calls `rewrite` once for each module, and `initialise`
 * once for each fresh set of weights. In both calls the plugin works through the host table that it
 * receives.
 *
 * Rules
 * - Structs, rewire_host among them, grow only at their end. A plugin works with every host of the same ABI
 *   major whose minor is equal or newer. A struct marked "Fixed" does not grow within a major.
 * - Neither side frees what the other allocated. Each side may read what the other passes until the function
 *   returns; text from the host stays valid until rewrite or initialise returns.
 * - Handles (rewire_call, rewire_value) are valid only on the thread of rewrite or initialise and until it
 *   returns. Using an invalid handle is an error, never undefined behaviour.
 * - Errors are sticky. After the first one every host function does nothing and returns a failure, and the
 *   host drops the whole rewrite, whatever the plugin returns. So a plugin may ignore a status.
 * - No exception, signal or longjmp crosses the boundary.
 * - A rewrite depends only on the module, the parameters and the seed: no clock, no environment, no state.
 */
#ifndef REWIRE_PLUGIN_H_
#define REWIRE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REWIRE_ABI(major, minor) ((uint32_t)(((uint32_t)(major) << 16) | (uint32_t)(minor)))
#define REWIRE_ABI_VERSION REWIRE_ABI(1, 6)
#define REWIRE_PLUGIN_MAGIC UINT32_C(0x52575250) /* "PRWR" in memory */

#define REWIRE_OK 0
#define REWIRE_ERROR 1 /* after set_error: the plugin refuses the module for the reason given */
#define REWIRE_FAULT 2 /* ABI 1.1: the plugin made a mistake; set_error is optional */

/* The host and its plugins must use the same sanitizer, because its runtime cannot be added to a running
 * process. */
#define REWIRE_SANITIZER_NONE 0u
#define REWIRE_SANITIZER_ADDRESS 1u
#define REWIRE_SANITIZER_THREAD 2u
#if defined(__SANITIZE_ADDRESS__)
#define REWIRE_SANITIZER REWIRE_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define REWIRE_SANITIZER REWIRE_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REWIRE_SANITIZER REWIRE_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define REWIRE_SANITIZER REWIRE_SANITIZER_THREAD
#endif
#endif
#ifndef REWIRE_SANITIZER
#define REWIRE_SANITIZER REWIRE_SANITIZER_NONE
#endif

/* Messages name the compiler that built the plugin. rewire_add_plugin() defines a more precise text. */
#ifndef REWIRE_BUILD_ID
#if defined(__clang__)
#define REWIRE_BUILD_ID "clang " __clang_version__
#else
#define REWIRE_BUILD_ID "gcc " __VERSION__
#endif
#endif

/* A handle of one call of rewrite or initialise. */
typedef uint64_t rewire_call;

/* A handle of a tensor value of the module. If all fields are zero, it is no value. Fixed. */
typedef struct rewire_value {
  uint32_t index;
  uint32_t call;
} rewire_value;

/* Element types: floats of 64, 32 and 16 bits (bf16: f32's range; f16: IEEE half), signed integers, bytes,
 * truth values. */
enum { REWIRE_F64, REWIRE_F32, REWIRE_BF16, REWIRE_F16, REWIRE_I64, REWIRE_I32, REWIRE_U8, REWIRE_I1 };
#define REWIRE_MAX_RANK 8

/* A tensor type. Extents are >= 1, with the outermost first. Rank 0 is a scalar. Fixed. */
typedef struct rewire_type {
  uint32_t dtype;
  uint32_t rank;
  int64_t shape[REWIRE_MAX_RANK];
} rewire_type;

enum {
  REWIRE_ATTRIBUTE_BOOL,  /* integer: 0 or 1 */
  REWIRE_ATTRIBUTE_INT,   /* integer */
  REWIRE_ATTRIBUTE_FLOAT, /* real */
  REWIRE_ATTRIBUTE_STR,   /* text */
  REWIRE_ATTRIBUTE_INTS,  /* integers, count */
  REWIRE_ATTRIBUTE_FLOATS /* reals, count */
};

/* A named constant of an op. The host reads only the field of its kind. Fixed. */
typedef struct rewire_attribute {
  const char* name;
  uint32_t kind;
  uint32_t count;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* integers;
  const double* reals;
} rewire_attribute;

/* An op to emit. rewire_ops.txt beside this header lists the ops of ABI 1 and their attributes. Operands of
 * a pointwise op broadcast as in NumPy; their dtypes must agree. Fixed. */
typedef struct rewire_op {
  const char* name;
  const rewire_value* operands;
  uint32_t operand_count;
  uint32_t attribute_count;
  const rewire_attribute* attributes;
  const rewire_type* type; /* the result type of cast, reshape, broadcast, constant and iota; else NULL */
} rewire_op;

/* A residual join, where a branch is added to the stream. The plugin sets size = sizeof(rewire_join), and
 * the host fills in no more than that. During initialise, a join has no values. */
typedef struct rewire_join {
  uint32_t size;
  int32_t batch_axis, token_axis, channel_axis; /* axes of stream and branch */
  int64_t block, stage;                         /* counted from 0; stage is 0 in a network without stages */
  int64_t join_index, join_count;               /* over all joins of the scope; filters do not renumber */
  int64_t heads;                                /* attention heads; 0 if there are none */
  const char* name;                             /* "blocks.3.attn"; "decoder_blocks.3.attn" */
  const char* site;                             /* "attn", "mlp", "conv" */
  const char* scope;                            /* "encoder", "decoder" */
  const char* last_weight;                      /* full name of the weight that ends the branch */
  const char* shortcut_owner;                   /* the plugin that claimed the slot; "" while unclaimed */
  const char* branch_owner;
  rewire_value stream;      /* x, before the join */
  rewire_value branch;      /* f, the branch's output after drop path */
  rewire_value input;       /* the branch's input: LN(x) in a pre-norm block */
  rewire_value shortcut;    /* current slot: x in a fresh join, no value once cleared */
  rewire_value branch_slot; /* current slot: f in a fresh join */
  uint32_t path_count;      /* terms added beside the two slots */
  uint32_t weight_count;    /* weights that the branch reads */
  /* ABI 1.1 */
  int64_t block_count; /* blocks of the scope; filters do not change it */
  double drop_path;    /* the rate at which training drops a sample's branch; 0: never */
  /* ABI 1.3 */
  const char* sum_owner; /* the plugin that claimed the whole sum; "" while unclaimed */
} rewire_join;

/* A weight of the module. The plugin sets size = sizeof(rewire_weight). */
typedef struct rewire_weight {
  uint32_t size;
  int32_t trainable; /* 0 or 1 */
  int32_t decay;     /* in the weight-decay group: 0 or 1 */
  uint32_t reserved; /* 0 */
  int64_t block;     /* -1 outside the blocks */
  const char* name;  /* "blocks.3.attn.qkv.weight" */
  const char* role;  /* "norm", "qkv", "proj", "fc1", "fc2", "conv", "layer_scale", ... */
  const char* site;  /* "" outside a branch */
  rewire_type type;
} rewire_weight;

enum {
  REWIRE_INIT_ZEROS,
  REWIRE_INIT_ONES,
  REWIRE_INIT_CONSTANT,      /* a */
  REWIRE_INIT_NORMAL,        /* mean 0, std a */
  REWIRE_INIT_TRUNC_NORMAL,  /* mean 0, std a, cut at -b and b */
  REWIRE_INIT_UNIFORM,       /* [a, b) */
  REWIRE_INIT_XAVIER_UNIFORM /* the fans are the last two axes, out by in */
};

/* A weight to add. Its full name is "blocks.3.join_attn.<name>". Fixed. */
typedef struct rewire_new_weight {
  const char* name;
  const rewire_type* type;
  uint32_t init;     /* REWIRE_INIT_… */
  int32_t trainable; /* 0 or 1 */
  int32_t decay;     /* 1: in the weight-decay group */
  uint32_t reserved; /* 0 */
  double a, b;       /* the numbers that `init` takes */
} rewire_new_weight;

/* ABI 1.4. Optimizer settings of one weight. If the bit of a number is set in `fields`, it replaces the
 * run's number, which applies otherwise. The plugin sets size = sizeof(rewire_weight_hint). */
#define REWIRE_HINT_LR_SCALE 1u
#define REWIRE_HINT_WEIGHT_DECAY 2u
#define REWIRE_HINT_BETA1 4u
#define REWIRE_HINT_BETA2 8u
typedef struct rewire_weight_hint {
  uint32_t size;
  uint32_t fields;     /* REWIRE_HINT_... */
  double lr_scale;     /* factor on the run's learning rate; finite, > 0 */
  double weight_decay; /* replaces the run's weight decay, in either group; finite, >= 0; 0: none */
  double beta1, beta2; /* AdamW's betas, in [0, 1); an optimizer without betas ignores them */
} rewire_weight_hint;

/* Levels of a message in the user's log. By default the log shows information and warnings. */
enum { REWIRE_LOG_DEBUG, REWIRE_LOG_INFO, REWIRE_LOG_WARNING };

/* The host's functions. Those marked [R] work only in rewrite, those marked [I] only in initialise, and all
 * others in both. `join` counts from 0 over the joins that pass the user's filters. On failure, a function
 * that returns a rewire_value returns no value. An int32_t is a status unless the comment says otherwise. */
typedef struct rewire_host {
  uint32_t size;
  uint32_t abi;

  /* These return the user's parameters, parsed and validated against the schema. A getter returns 0 on
   * failure, which means that the schema has no such name, or another kind. error() distinguishes a failure
   * from a parameter of 0. */
  int32_t (*get_bool)(rewire_call, const char* name);
  int64_t (*get_int)(rewire_call, const char* name);
  double (*get_float)(rewire_call, const char* name);
  const char* (*get_text)(rewire_call, const char* name); /* str, enum; "" on failure */
  uint64_t (*seed)(rewire_call);

  void (*log)(rewire_call, uint32_t level, const char* message);
  void (*set_error)(rewire_call, const char* message);
  /* Returns the first error, or NULL while there is none. */
  const char* (*error)(rewire_call);

  /* These return joins in network order, the weights that a branch reads, and all weights of the module. */
  uint32_t (*join_count)(rewire_call);
  int32_t (*join)(rewire_call, uint32_t join, rewire_join* out);
  rewire_value (*join_path)(rewire_call, uint32_t join, uint32_t path); /* [R] */
  int32_t (*join_weight)(rewire_call, uint32_t join, uint32_t weight, rewire_weight* out);
  uint32_t (*weight_count)(rewire_call);
  int32_t (*weight)(rewire_call, uint32_t weight, rewire_weight* out);

  /* [R] These work with values. The host places a new op directly before the join. If an operand is defined
   * later, the host moves the op after it. If an earlier op is made to read the new op, the host moves the
   * new op before that op. */
  int32_t (*type)(rewire_call, rewire_value value, rewire_type* out);
  /* `result_count` is the op's number of results in rewire_ops.txt. `results` has room for that number. */
  int32_t (*emit)(rewire_call, uint32_t join, const rewire_op* op, rewire_value* results,
                  uint32_t result_count);
  rewire_value (*is_training)(rewire_call, uint32_t join); /* i1 scalar */
  /* Returns uniform numbers in [0, 1), which are new in every step. Each (join, plugin, `name`) has a random
   * stream of its own. */
  rewire_value (*rng_stream)(rewire_call, uint32_t join, const char* name, const rewire_type* type);
  /* These return a weight as a value: a new weight, or any weight of the module. */
  rewire_value (*add_weight)(rewire_call, uint32_t join, const rewire_new_weight* weight);
  rewire_value (*weight_value)(rewire_call, uint32_t join, const char* full_name);

  /* [R] These change the slots. A join is the sum of the shortcut, the branch slot and the paths. Setting or
   * clearing a slot claims it. Claiming a slot that another plugin has claimed is an error. add_path claims
   * nothing. See also set_sum. */
  int32_t (*set_shortcut)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*clear_shortcut)(rewire_call, uint32_t join);
  int32_t (*set_branch)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*add_path)(rewire_call, uint32_t join, rewire_value value);

  /* [I] These read and write the values of any weight, row-major, as doubles whatever its dtype. `count` is
   * its number of elements. */
  int32_t (*read_weight)(rewire_call, const char* full_name, double* data, uint64_t count);
  int32_t (*write_weight)(rewire_call, const char* full_name, const double* data, uint64_t count);
  /* These draw random numbers, which depend only on the seed, the plugin's name, `stream` and the index.
   * They work in both calls. */
  int32_t (*draw_uniform)(rewire_call, const char* stream, double* data, uint64_t count); /* [0, 1) */
  int32_t (*draw_normal)(rewire_call, const char* stream, double* data, uint64_t count);  /* mean 0, std 1 */

  /* ABI 1.1. These decompose `count` matrices of rows x cols. Matrices and results are row-major and
   * contiguous. The results do not depend on the number of threads. The functions work in both calls. */
  /* a = q r with rows >= cols. q [rows, cols] has orthonormal columns, and r [cols, cols] is upper
   * triangular with a diagonal >= 0. */
  int32_t (*qr)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, const double* a, double* q,
                double* r);
  /* a = u diag(s) vt with k = min(rows, cols). u is [rows, k], and the entry of largest magnitude in each of
   * its columns is > 0. s is [k], in descending order. vt is [k, cols]. */
  int32_t (*svd)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, const double* a, double* u,
                 double* s, double* vt);

  /* ABI 1.2. Computes only the first `largest` triples of svd, which is several times as fast if they are
   * few. u is [rows, largest], s is [largest] and vt is [largest, cols], with 1 <= largest <= min(rows,
   * cols). It works in both calls. */
  int32_t (*svd_of_largest)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, uint64_t largest,
                            const double* a, double* u, double* s, double* vt);

  /* ABI 1.3. [R] */
  /* Makes `value` the whole sum. It claims both slots and the paths, and is an error if a term was set,
   * changed or added before. Afterwards, only change_sum is allowed. */
  int32_t (*set_sum)(rewire_call, uint32_t join, rewire_value value);
  /* These replace a slot, or the whole sum, by `value`, which must be computed from what it replaces. They
   * claim nothing. Several plugins may change one place, in the order in which the user names them. Setting
   * a changed slot is an error, and so is setting, changing or adding a term after change_sum. The user must
   * name a plugin that does so before the plugin that makes the change. */
  int32_t (*change_shortcut)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*change_branch)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*change_sum)(rewire_call, uint32_t join, rewire_value value);

  /* ABI 1.4. [R] Values within the network, by their role at a join:
   *   norm_input  the input of the branch's norm, of the stream's type: x in a pre-norm block
   *   input       the branch's input: the norm's result
   *   q, k, v     the operands of the branch's attention, [batch, heads, tokens, width of a head]
   *   attention   the result of the branch's attention
   *   hidden      the input of the branch's last layer
   *   entry       the stream of the scope's first join: the embedding
   *   exit        the result of the scope's last join, which the final norm reads */
  /* Returns the current value of a role. If the join has none, it returns no value, which is not an
   * error. */
  rewire_value (*role_value)(rewire_call, uint32_t join, const char* role);
  /* Makes every reader of the role's value read `value` instead, which has the same type. For the roles
   * `norm_input` to `hidden`, it affects only readers in the branch. If another plugin has replaced the
   * value before, `value` must be computed from that replacement. `input` and `exit` can be replaced
   * once. */
  int32_t (*replace_value)(rewire_call, uint32_t join, const char* role, rewire_value value);
  /* Adds a weight that starts as `values`, row-major, one per element. It ignores `init`, a and b. */
  rewire_value (*add_weight_of)(rewire_call, uint32_t join, const rewire_new_weight* weight,
                                const double* values, uint64_t count);
  /* Sets the place in the plugin's source that calls the next functions. Their error messages end with it.
   * NULL clears it. */
  int32_t (*locate)(rewire_call, const char* place);

  /* ABI 1.4. [R] Hooks: what a training step does in addition to the forward pass. `weight` is the name
   * given to add_weight at this join, or a full name. A scalar is a float value of one element, of any
   * rank. */
  /* Sets the hint of a weight that trains. If several hints of one weight set the same number, they must
   * agree. */
  int32_t (*weight_hint)(rewire_call, uint32_t join, const char* weight, const rewire_weight_hint* hint);
  /* Adds "report.<join>.<plugin>.<name>" to the training lines of metrics.jsonl: the scalar's mean over the
   * line's steps. `name` is [a-z][a-z0-9_]*. A plugin may use a name once per join. */
  int32_t (*report)(rewire_call, uint32_t join, const char* name, rewire_value scalar);
  /* Returns an f32 scalar: the share of the run's optimizer steps that are done. It is 0 in the first step
   * and below 1 in the last. In evaluation, it is the share that the weights have seen. It carries no
   * gradient. */
  rewire_value (*progress)(rewire_call, uint32_t join);
  /* Adds the scalar to the training loss, once per call. The loss in evaluation does not include it. */
  int32_t (*add_loss)(rewire_call, uint32_t join, rewire_value scalar);
  /* Makes every training step set a weight that does not train to this value, which has the weight's shape.
   * Call it once per weight. */
  int32_t (*update_state)(rewire_call, uint32_t join, const char* weight, rewire_value value);
  /* Sets a weight that trains to this value after every optimizer update. The value has the weight's shape.
   * It is a function of the weight itself, as weight_value and add_weight return it, and of weights that do
   * not train. It is computed from the optimizer's new value of the weight. Call it once per weight. */
  int32_t (*after_step)(rewire_call, uint32_t join, const char* weight, rewire_value value);
} rewire_host;

enum {
  REWIRE_PARAMETER_BOOL,  /* true or false */
  REWIRE_PARAMETER_INT,   /* 64 bits, with bounds */
  REWIRE_PARAMETER_FLOAT, /* a double, with bounds */
  REWIRE_PARAMETER_ENUM,  /* one of `values` */
  REWIRE_PARAMETER_STR    /* any text */
};
#define REWIRE_MIN 1u          /* min is a bound */
#define REWIRE_MAX 2u          /* max is a bound */
#define REWIRE_MIN_EXCLUDED 4u /* min itself is refused */
#define REWIRE_MAX_EXCLUDED 8u /* max itself is refused */

/* A parameter that the user may set. Names are [a-z][a-z0-9_]*. The names sites, layers, stages, scope,
 * from_epoch and to_epoch belong to the host. */
typedef struct rewire_parameter {
  const char* name;
  const char* default_value; /* as a user would write it */
  const char* doc;           /* one line */
  const char* values;        /* the choices of an enum: "feature|global" */
  uint32_t kind;
  uint32_t bounds; /* REWIRE_MIN | ..., for int and float */
  double min, max;
} rewire_parameter;

typedef struct rewire_plugin {
  /* The handshake reads these five fields. They have the same place in every ABI. */
  uint32_t magic;       /* REWIRE_PLUGIN_MAGIC */
  uint32_t size;        /* sizeof(rewire_plugin), as the plugin was compiled */
  uint32_t abi;         /* REWIRE_ABI_VERSION, as the plugin was compiled */
  uint32_t sanitizer;   /* REWIRE_SANITIZER */
  const char* build_id; /* the compiler and an identification of this build, for messages */
  /* ABI 1.0 */
  const char* name; /* [a-z][a-z0-9_]* */
  const char* version;
  const char* doc; /* one line */
  const rewire_parameter* parameters;
  uint32_t parameter_count;
  uint32_t parameter_size; /* sizeof(rewire_parameter), as the plugin was compiled */
  int32_t (*rewrite)(const rewire_host*, rewire_call);
  int32_t (*initialise)(const rewire_host*, rewire_call); /* or NULL */
} rewire_plugin;

/* This is the only symbol that a plugin exports. `host_abi` is the host's REWIRE_ABI_VERSION. */
#define REWIRE_EXPORT __attribute__((visibility("default")))
REWIRE_EXPORT const rewire_plugin* rewire_plugin_query(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
